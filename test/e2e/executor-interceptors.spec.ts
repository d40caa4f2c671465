import { TaskState } from '@a2a-js/sdk';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  ArgumentsHost,
  CallHandler,
  Catch,
  type ExceptionFilter,
  ExecutionContext,
  Injectable,
  NestInterceptor,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { currentTurn, type TurnExecutor, type TurnRequestContext } from 'nestjs-a2a-cluster';
import { catchError, Observable, of, tap, throwError } from 'rxjs';
import { cancel, errorName, getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { AgentAppFixture, type AgentBehaviour } from './agent-app.fixture.js';
import { aborted, completed, inputRequired, publishStatus, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

/** What an executor with these enhancers does, and a log that they share. */
const log: string[] = [];
beforeEach(() => log.splice(0));

/** An executor class, to be decorated. */
function agent({ execute, cancelTask }: AgentBehaviour): Type<TurnExecutor> {
  @Injectable()
  class Agent implements TurnExecutor {
    async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
      log.push('execute');
      await execute?.(context, bus);
    }

    async cancelTask(taskId: string, bus: ExecutionEventBus): Promise<void> {
      log.push('cancelTask');
      await cancelTask?.(taskId, bus);
    }
  }
  return Agent;
}

function around(name: string): Type<NestInterceptor> {
  @Injectable()
  class Around implements NestInterceptor {
    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      log.push(`${name} before ${context.getType()} ${context.getHandler().name} of turn ${currentTurn().attempt}`);
      return next
        .handle()
        .pipe(tap({ complete: () => log.push(`${name} after`), error: () => log.push(`${name} error`) }));
    }
  }
  return Around;
}

function decorated(base: Type<TurnExecutor>, ...decorators: ClassDecorator[]): Type<TurnExecutor> {
  for (const decorate of decorators) decorate(base);
  return base;
}

describe('@UseInterceptors on the executor', () => {
  test('interceptors run in their order around execute, inside the turn', async () => {
    const executor = decorated(
      agent({ execute: (context, bus) => completed(bus, context) }),
      UseInterceptors(around('outer'), around('inner')),
    );
    const app = await fixture.start({ cluster: { executor } });
    expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
    expect(log).toEqual([
      'outer before a2a execute of turn 1',
      'inner before a2a execute of turn 1',
      'execute',
      'inner after',
      'outer after',
    ]);
  });

  test('interceptors run around cancelTask too, of a waiting and of a running task', async () => {
    const executor = decorated(
      agent({
        execute: async (context, bus) => {
          if (textOf(context.userMessage) === 'ask') return inputRequired(bus, context);
          working(bus, context);
          await aborted(context.turn);
        },
      }),
      UseInterceptors(around('one')),
    );
    const app = await fixture.start({ cluster: { executor } });
    const client = await app.client();
    const waiting = await send(client, 'ask');
    expect(stateName(await cancel(client, waiting.id))).toBe('CANCELED');
    expect(log.slice(3)).toEqual(['one before a2a cancelTask of turn 1', 'cancelTask', 'one after']);
    log.splice(0);
    const running = await send(client, 'work', { configuration: { returnImmediately: true } });
    expect(stateName(await cancel(client, running.id))).toBe('CANCELED');
    expect(log).toContain('one before a2a cancelTask of turn 1');
  });

  test('O18 an interceptor is inside the fence: a refused follow-up never reaches it', async () => {
    const executor = decorated(
      agent({
        execute: async (context, bus) => {
          working(bus, context);
          await aborted(context.turn);
        },
      }),
      UseInterceptors(around('one')),
    );
    const app = await fixture.start({ cluster: { executor } });
    const client = await app.client();
    const { id: taskId } = await send(client, 'hello', { configuration: { returnImmediately: true } });
    expect(await errorName(send(client, 'more', { taskId }))).toBe('UnsupportedOperationError');
    expect(log).toEqual(['one before a2a execute of turn 1', 'execute']);
    await cancel(client, taskId);
  });

  test('an interceptor may turn an error into another: FAILED with that one', async () => {
    const rename: NestInterceptor = {
      intercept: (_context, next) =>
        next.handle().pipe(catchError((error: Error) => throwError(() => new Error(`renamed: ${error.message}`)))),
    };
    const executor = decorated(agent({ execute: () => Promise.reject(new Error('fire')) }), UseInterceptors(rename));
    const app = await fixture.start({ cluster: { executor } });
    const task = await send(await app.client(), 'hello');
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toContain('renamed: fire');
  });

  test('an interceptor may swallow an error and end the task itself', async () => {
    const rescue: NestInterceptor = {
      intercept: (context, next) =>
        next.handle().pipe(
          catchError(() => {
            const [request, bus] = context.getArgs<[TurnRequestContext, ExecutionEventBus]>();
            completed(bus, request, 'rescued');
            return of(undefined);
          }),
        ),
    };
    const executor = decorated(agent({ execute: () => Promise.reject(new Error('fire')) }), UseInterceptors(rescue));
    const app = await fixture.start({ cluster: { executor } });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['COMPLETED', 'rescued']);
  });

  test('an interceptor that throws, or that never calls the executor, ends the task FAILED', async () => {
    const throwing: NestInterceptor = {
      intercept: () => {
        throw new Error('not today');
      },
    };
    const skipping: NestInterceptor = { intercept: () => of(undefined) };
    for (const [interceptor, text] of [
      [throwing, 'not today'],
      [skipping, 'returned without'],
    ] as const) {
      const executor = decorated(
        agent({ execute: (context, bus) => completed(bus, context) }),
        UseInterceptors(interceptor),
      );
      const app = await fixture.start({ cluster: { executor } });
      const task = await send(await app.client(), 'hello');
      expect([stateName(task), textOf(task.status?.message)]).toEqual(['FAILED', expect.stringContaining(text)]);
      expect(log).toEqual([]);
    }
  });
});

describe('@UseFilters on the executor', () => {
  class PaymentError extends Error {}

  test('a filter that throws decides what the task fails with', async () => {
    @Catch(PaymentError)
    class Explain implements ExceptionFilter {
      catch(error: PaymentError, host: ArgumentsHost): never {
        throw new Error(`explained in ${host.getType()}: ${error.message}`);
      }
    }
    const executor = decorated(
      agent({ execute: () => Promise.reject(new PaymentError('no money')) }),
      UseFilters(Explain),
    );
    const app = await fixture.start({ cluster: { executor } });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual([
      'FAILED',
      expect.stringContaining('explained in a2a: no money'),
    ]);
  });

  test('a filter may end the task itself, through the bus among its arguments', async () => {
    @Catch(PaymentError)
    class Reject implements ExceptionFilter {
      catch(_error: PaymentError, host: ArgumentsHost): void {
        const [request, bus] = host.getArgs<[TurnRequestContext, ExecutionEventBus]>();
        publishStatus(bus, request, TaskState.TASK_STATE_REJECTED, 'no money, no task');
      }
    }
    const executor = decorated(
      agent({ execute: () => Promise.reject(new PaymentError('no money')) }),
      UseFilters(Reject),
    );
    const app = await fixture.start({ cluster: { executor } });
    const client = await app.client();
    const task = await send(client, 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['REJECTED', 'no money, no task']);
    expect(stateName(await getTask(client, task.id))).toBe('REJECTED');
  });

  test('a filter for another kind of error leaves this one alone', async () => {
    @Catch(PaymentError)
    class Never implements ExceptionFilter {
      catch(): void {
        log.push('filter');
      }
    }
    const executor = decorated(agent({ execute: () => Promise.reject(new TypeError('odd')) }), UseFilters(Never));
    const app = await fixture.start({ cluster: { executor } });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['FAILED', expect.stringContaining('odd')]);
    expect(log).toEqual(['execute']);
  });
});

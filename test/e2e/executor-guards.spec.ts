import type { Client } from '@a2a-js/sdk/client';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  ArgumentsHost,
  CanActivate,
  Catch,
  type ExceptionFilter,
  ExecutionContext,
  ForbiddenException,
  Injectable,
  Module,
  SetMetadata,
  type Type,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ClusterOptionsError, type TurnExecutor, TurnRequestContext } from 'nestjs-a2a-cluster';
import { cancel, errorName, errorOf, getTask, send, stream } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { completed, inputRequired, textOf } from './agent-events.js';

const fixture = new AgentAppFixture();

@Injectable()
class Blacklist {
  readonly words = ['please'];
}

@Module({ providers: [Blacklist], exports: [Blacklist] })
class BlacklistModule {}

const seen: { type: string; role: string | undefined; handler: string; className: string }[] = [];
const Role = (role: string) => SetMetadata('role', role);

/** Refuses words that its dependency knows. */
@Injectable()
class PoliteGuard implements CanActivate {
  constructor(
    private readonly blacklist: Blacklist,
    private readonly reflector: Reflector,
  ) {}

  canActivate(context: ExecutionContext): boolean {
    const role = this.reflector.getAllAndOverride<string | undefined>('role', [
      context.getHandler(),
      context.getClass(),
    ]);
    seen.push({
      type: context.getType(),
      role,
      handler: context.getHandler().name,
      className: context.getClass().name,
    });
    const [request] = context.getArgs<[unknown]>();
    if (!(request instanceof TurnRequestContext)) return true;
    const text = textOf(request.userMessage);
    if (text === 'forbidden') throw new ForbiddenException('not with me');
    if (text === 'unknown') throw new TaskNotFoundError('never heard of it');
    return !this.blacklist.words.includes(text);
  }
}

class AskingAgent implements TurnExecutor {
  execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
    if (textOf(context.userMessage) === 'end') completed(bus, context);
    else inputRequired(bus, context, 'which?');
    return Promise.resolve();
  }

  cancelTask(): Promise<void> {
    return Promise.resolve();
  }
}

@UseGuards(PoliteGuard)
@Injectable()
class GuardedAgent extends AskingAgent {
  @Role('speaker')
  override execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
    return super.execute(context, bus);
  }
}

const rows = (): Promise<unknown> =>
  fixture.database.query(
    'SELECT task_id, version, state, (SELECT count(*) FROM a2a_task_events) AS events FROM a2a_tasks ORDER BY task_no',
  );

describe.each(TRANSPORTS)('@UseGuards on the executor, over %s', (transport) => {
  beforeEach(() => seen.splice(0));

  /** A client of an app whose executor is guarded. */
  async function guarded(executor: Type<TurnExecutor> = GuardedAgent): Promise<Client> {
    const app = await fixture.start({ cluster: { executor, imports: [BlacklistModule] } });
    return app.client({ transport });
  }

  test('a class guard with dependencies that refuses a new task leaves nothing behind', async () => {
    const client = await guarded();
    const before = await rows();
    const error = await errorOf(send(client, 'please'));
    expect(error.name).toBe('UnsupportedOperationError');
    expect(error.message).toMatch(/refuses/);
    expect(await errorName(stream(client, 'please'))).toBe('UnsupportedOperationError');
    expect(await errorName(send(client, 'please', { configuration: { returnImmediately: true } }))).toBe(
      'UnsupportedOperationError',
    );
    expect(await rows()).toEqual(before);
    expect(stateName(await send(client, 'end'))).toBe('COMPLETED');
  });

  test('a refused follow-up leaves the task as it was', async () => {
    const client = await guarded();
    const { id: taskId } = await send(client, 'hello');
    const before = await rows();
    expect(await errorName(send(client, 'please', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(stream(client, 'please', { taskId }))).toBe('UnsupportedOperationError');
    expect(await rows()).toEqual(before);
    expect(stateName(await send(client, 'end', { taskId }))).toBe('COMPLETED');
  });

  test("what a guard throws is told: a protocol error as it is, another one's message in a named error", async () => {
    const client = await guarded();
    const forbidden = await errorOf(send(client, 'forbidden'));
    expect([forbidden.name, forbidden.message]).toEqual([
      'UnsupportedOperationError',
      expect.stringContaining('not with me'),
    ]);
    const unknown = await errorOf(send(client, 'unknown'));
    expect([unknown.name, unknown.message]).toEqual(['TaskNotFoundError', expect.stringContaining('never heard')]);
  });

  test("a guard sees a context of type 'a2a', the handler, the class and their metadata", async () => {
    const client = await guarded();
    const { id } = await send(client, 'hello');
    await cancel(client, id);
    expect(seen).toEqual([
      { type: 'a2a', role: 'speaker', handler: 'execute', className: 'GuardedAgent' },
      { type: 'a2a', role: undefined, handler: 'cancelTask', className: 'GuardedAgent' },
    ]);
  });

  test('a guard on execute alone does not guard cancelTask', async () => {
    @Injectable()
    class Agent extends AskingAgent {
      @UseGuards(PoliteGuard)
      override execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
        return super.execute(context, bus);
      }
    }
    const client = await guarded(Agent);
    expect(await errorName(send(client, 'please'))).toBe('UnsupportedOperationError');
    const { id } = await send(client, 'hello');
    expect(stateName(await cancel(client, id))).toBe('CANCELED');
    expect(seen.map(({ handler }) => handler)).toEqual(['execute', 'execute']);
  });

  test('a guard on cancelTask alone refuses the cancel and leaves the task as it was', async () => {
    const never: CanActivate = { canActivate: () => false };
    @Injectable()
    class Agent extends AskingAgent {
      @UseGuards(never)
      override cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    const app = await fixture.start({ cluster: { executor: Agent } });
    const client = await app.client({ transport });
    const { id } = await send(client, 'hello');
    const before = await rows();
    expect(await errorName(cancel(client, id))).toBe('UnsupportedOperationError');
    expect(await rows()).toEqual(before);
    expect(stateName(await getTask(client, id))).toBe('INPUT_REQUIRED');
  });

  test("a filter gets what a guard throws, and its error is the sender's answer", async () => {
    @Catch(ForbiddenException)
    class Translate implements ExceptionFilter {
      catch(_error: ForbiddenException, host: ArgumentsHost): never {
        throw new TaskNotFoundError(`translated in ${host.getType()}`);
      }
    }
    @UseGuards(PoliteGuard)
    @UseFilters(Translate)
    @Injectable()
    class Agent extends AskingAgent {}
    const error = await errorOf(send(await guarded(Agent), 'forbidden'));
    expect([error.name, error.message]).toEqual(['TaskNotFoundError', expect.stringContaining('translated in a2a')]);
  });
});

describe('An executor whose enhancers Nest does not make', () => {
  test.each([
    ['useFactory', { provide: 'AGENT', useFactory: () => new GuardedAgent() }],
    ['useValue', { provide: 'AGENT', useValue: new GuardedAgent() }],
  ])('%s with @UseGuards fails the boot, naming the guard', async (_form, provider) => {
    @Module({ imports: [BlacklistModule], providers: [provider], exports: ['AGENT'] })
    class AgentModule {}
    const error = await fixture.bootError({ cluster: { executor: 'AGENT', imports: [AgentModule] } });
    expect(error).toBeInstanceOf(ClusterOptionsError);
    expect(error.message).toMatch(/executor is "AGENT".*PoliteGuard.*useClass/);
    expect((error as ClusterOptionsError).option).toBe('executor');
  });

  test('a guard on one method only fails the boot too', async () => {
    class Agent extends AskingAgent {
      @UseGuards(PoliteGuard)
      override cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    @Module({ providers: [{ provide: 'AGENT', useFactory: () => new Agent() }], exports: ['AGENT'] })
    class AgentModule {}
    const error = await fixture.bootError({ cluster: { executor: 'AGENT', imports: [AgentModule] } });
    expect(error).toBeInstanceOf(ClusterOptionsError);
    expect(error.message).toContain('PoliteGuard');
  });

  test('a guard whose dependency is missing fails the boot', async () => {
    const error = await fixture.bootError({ cluster: { executor: GuardedAgent } });
    expect(error.message).toMatch(/Blacklist/);
  });

  test('an executor that cannot be found fails the boot, saying what to do', async () => {
    const error = await fixture.bootError({ cluster: { executor: 'NO_SUCH_AGENT' } });
    expect(error).toBeInstanceOf(ClusterOptionsError);
    expect(error.message).toMatch(/executor is "NO_SUCH_AGENT".*imports exports/);
  });

  test('an executor without execute() or cancelTask() fails the boot', async () => {
    const provider = { provide: 'AGENT', useValue: { execute: () => Promise.resolve() } };
    @Module({ providers: [provider], exports: ['AGENT'] })
    class AgentModule {}
    const error = await fixture.bootError({ cluster: { executor: 'AGENT', imports: [AgentModule] } });
    expect(error).toBeInstanceOf(ClusterOptionsError);
    expect(error.message).toMatch(/no cancelTask\(\)/);
  });
});

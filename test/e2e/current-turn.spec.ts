import { AsyncResource } from 'node:async_hooks';
import { Controller, Get, Injectable, Module } from '@nestjs/common';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  currentTurn,
  LeaseLostError,
  NoCurrentTurnError,
  TaskCanceledError,
  type Turn,
  type TurnExecutor,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import { cancel, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { Barrier, Deferred, eventually, within } from '../../tools/harness/wait.js';
import { AgentAppFixture } from './agent-app.fixture.js';
import { aborted, completed, inputRequired, working } from './agent-events.js';

const fixture = new AgentAppFixture();

describe('currentTurn()', () => {
  test('is the turn, in services, after awaits, timers and microtasks', async () => {
    const seen: [string, Turn][] = [];
    @Injectable()
    class Tools {
      async use(): Promise<void> {
        seen.push(['service', currentTurn()]);
        await new Promise<void>((resolve) =>
          setTimeout(() => {
            seen.push(['timer', currentTurn()]);
            resolve();
          }, 1),
        );
        seen.push(['after an await', currentTurn()]);
        await new Promise<void>((resolve) =>
          queueMicrotask(() => {
            seen.push(['microtask', currentTurn()]);
            resolve();
          }),
        );
      }
    }
    @Module({ providers: [Tools], exports: [Tools] })
    class ToolsModule {}
    @Injectable()
    class Agent implements TurnExecutor {
      constructor(private readonly tools: Tools) {}

      async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
        await this.tools.use();
        expect(currentTurn()).toBe(context.turn);
        expect(currentTurn().taskId).toBe(context.taskId);
        expect(currentTurn().contextId).toBe(context.contextId);
        completed(bus, context);
      }

      cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    const app = await fixture.start({ cluster: { executor: Agent, imports: [ToolsModule] } });
    expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
    expect(seen.map(([where]) => where)).toEqual(['service', 'timer', 'after an await', 'microtask']);
    expect(new Set(seen.map(([, turn]) => turn)).size).toBe(1);
  });

  test('is each one its own where turns run at once', async () => {
    const [both, seen] = [new Barrier(2), new Map<string, Turn>()];
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        await both.arrive();
        seen.set(context.taskId, currentTurn());
        expect(currentTurn()).toBe(context.turn);
        completed(bus, context);
      },
    });
    const client = await app.client();
    const tasks = await Promise.all([send(client, 'one'), send(client, 'two')]);
    expect(tasks.map(stateName)).toEqual(['COMPLETED', 'COMPLETED']);
    for (const { id } of tasks) expect(seen.get(id)?.taskId).toBe(id);
  });

  test('throws NoCurrentTurnError outside of a turn: in a controller, and in what was bound before', async () => {
    const before = new AsyncResource('made outside of any turn');
    let inside: unknown;
    @Controller('probe')
    class Probe {
      @Get()
      probe(): string {
        try {
          return currentTurn().taskId;
        } catch (error) {
          return error instanceof NoCurrentTurnError ? error.code : String(error);
        }
      }
    }
    const app = await fixture.start({
      execute: (context, bus) => {
        before.runInAsyncScope(() => {
          try {
            currentTurn();
          } catch (error) {
            inside = error;
          }
        });
        completed(bus, context);
      },
      root: { controllers: [Probe] },
    });
    expect(() => currentTurn()).toThrow(NoCurrentTurnError);
    expect(await (await fetch(`${app.url}/probe`)).text()).toBe('A2A_NO_CURRENT_TURN');
    await send(await app.client(), 'hello');
    expect(inside).toBeInstanceOf(NoCurrentTurnError);
  });
});

describe('The turn', () => {
  test('has attempt 1, an idle signal, and a fencing token from the first stored event on, which grows', async () => {
    const tokens: (number | undefined)[] = [];
    const app = await fixture.start({
      execute: async (context, bus) => {
        const { turn } = context;
        expect([turn.attempt, turn.signal.aborted]).toEqual([1, false]);
        expect(() => turn.assertHeld()).not.toThrow();
        if (!context.task) expect(turn.fencingToken).toBeUndefined();
        working(bus, context);
        await turn.flush();
        expect(turn.fencingToken).toEqual(expect.any(Number));
        tokens.push(turn.fencingToken);
        const [lease] = await fixture.database.query<{ generation: string }>('SELECT generation FROM a2a_task_leases');
        expect(Number(lease?.generation)).toBe(turn.fencingToken);
        inputRequired(bus, context);
      },
    });
    const client = await app.client();
    const { id: taskId } = await send(client, 'one');
    expect(stateName(await send(client, 'two', { taskId }))).toBe('INPUT_REQUIRED');
    expect(tokens).toHaveLength(2);
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
  });

  test('flush() resolves once what was published is stored, and at once when nothing was', async () => {
    const app = await fixture.start({
      execute: async (context, bus) => {
        await context.turn.flush();
        const where = `FROM a2a_tasks WHERE task_id = '${context.taskId}'`;
        expect(await fixture.database.query(`SELECT * ${where}`)).toEqual([]);
        working(bus, context);
        await context.turn.flush();
        expect(await fixture.database.query(`SELECT state, version ${where}`)).toEqual([
          { state: 'TASK_STATE_WORKING', version: 2 },
        ]);
        completed(bus, context);
      },
    });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), task.status?.message]).toEqual(['COMPLETED', undefined]);
  });

  test('O40 a cancel aborts the signal with TaskCanceledError, and assertHeld() throws it', async () => {
    const canceled = new Deferred<Turn>();
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        await aborted(context.turn);
        canceled.resolve(context.turn);
      },
    });
    const client = await app.client();
    const sender = Recording.send(client, 'hello');
    await cancel(client, (await sender.task()).id);
    const turn = await canceled.promise;
    expect(turn.signal.reason).toBeInstanceOf(TaskCanceledError);
    expect((turn.signal.reason as TaskCanceledError).code).toBe('A2A_TASK_CANCELED');
    expect(() => turn.assertHeld()).toThrow(TaskCanceledError);
    await sender.finished();
  });

  test('I3 a lease claimed elsewhere aborts the signal with LeaseLostError, and nothing more is stored', async () => {
    const lost = new Deferred<Turn>();
    const late = new Deferred();
    const app = await fixture.start({
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        await aborted(context.turn);
        completed(bus, context, 'too late');
        await expect(context.turn.flush()).rejects.toThrow(LeaseLostError);
        lost.resolve(context.turn);
        late.resolve();
      },
    });
    const client = await app.client();
    const sender = Recording.send(client, 'hello');
    const { id } = await sender.task();
    await sender.waitFor((_, index) => index === 1);
    await fixture.database.query(
      "UPDATE a2a_task_leases SET generation = DEFAULT, holder = 'another', expires_at = clock_timestamp()",
    );
    const turn = await within(lost.promise, 5_000, 'the turn hears that its lease is lost');
    expect((turn.signal.reason as LeaseLostError).code).toBe('A2A_LEASE_LOST');
    expect(() => turn.assertHeld()).toThrow(LeaseLostError);
    await late.promise;
    await app.sweep();
    const responses = await sender.finished();
    expect(stateName(responses.at(-1)?.payload?.value as { status: undefined })).toBe('FAILED');
    const [task] = await fixture.database.query<{ state: string }>('SELECT state FROM a2a_tasks WHERE task_id = $1', [
      id,
    ]);
    expect(task?.state).toBe('TASK_STATE_FAILED');
    await eventually(() => fixture.logger.warnings.some((line) => line.includes('Another replica decides')));
  });
});

import { Injectable, Scope } from '@nestjs/common';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import { TaskState } from '@a2a-js/sdk';
import { EFFECTS_METADATA_KEY, type TurnRequestContext } from 'nestjs-a2a-cluster';
import { getTask, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { ended, RecoveryFixture, reExecuting, sweep, UNAWARE } from './abandoned-turns.fixture.js';
import { completed, inputRequired, working } from './agent-events.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

afterEach(() => fixture.database.query('DELETE FROM a2a_task_effects'));

describe('Turns that are run again, in odd places', () => {
  test('I5 the sender of a turn that was lost is let go when it ends elsewhere without a word', async () => {
    const hang = new Deferred();
    let run = 0;
    const execute = async (context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> => {
      run += 1;
      if (run === 1) return inputRequired(bus, context, 'go on?');
      if (run === 2) await hang.promise; // dies here, having said nothing; the next attempt says nothing either
    };
    const a = await fixture.start({
      execute,
      cluster: reExecuting({}, { ...UNAWARE, streams: { pollIntervalMs: 50 } }),
    });
    const b = await fixture.start({ execute, cluster: reExecuting() });
    const client = await a.client();
    const { id } = await send(client, 'hello');
    const sender = Recording.send(client, 'go on', { taskId: id });
    await eventually(() => run === 2);
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await sender.finished();
    expect(stateName(await getTask(client, id))).toBe('INPUT_REQUIRED');
    hang.resolve();
  });

  test('I6 an executor that is never made for its next attempt is given up after maxTurnDurationMs', async () => {
    let made = 0;
    const never = new Promise<void>(() => undefined);
    @Injectable({ scope: Scope.REQUEST })
    class Slow {}
    const provider = {
      provide: Slow,
      scope: Scope.REQUEST,
      useFactory: async () => {
        made += 1;
        if (made > 1) await never;
        return new Slow();
      },
    };
    @Injectable({ scope: Scope.REQUEST })
    class Agent {
      constructor(readonly slow: Slow) {}

      async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
        working(bus, context);
        await never;
      }

      cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    Reflect.defineMetadata('design:paramtypes', [Slow], Agent);
    const app = await fixture.start({
      cluster: reExecuting(
        { maxAttempts: 2 },
        { executor: Agent, extraProviders: [provider], turns: { maxTurnDurationMs: 300, drainTimeoutMs: 0 } },
      ),
    });
    const sender = Recording.send(await app.client(), 'hello');
    const { id } = await sender.task();
    await leases.abandon(id);
    expect(await sweep(app)).toMatchObject({ reExecuted: 1 });
    // Not renewed any more: the lease runs out, and the attempts are used up.
    await eventually(async () => (await leases.find(id))?.attempt === 2 && made === 2);
    await eventually(() => fixture.logger.errors.some((line) => line.includes('could not be run again')));
    await leases.abandon(id);
    expect(await sweep(app)).toMatchObject({ failed: 1 });
    await sender.finished();
  });

  test('I7 a shutdown waits for the effects under way before it hands over', async () => {
    const called = new Deferred();
    const answer = new Deferred();
    let calls = 0;
    const execute = async (context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> => {
      working(bus, context);
      await context.turn.effect('charge', { replay: () => ({ outcome: 'not_performed' }) }, async () => {
        calls += 1;
        called.resolve();
        await answer.promise;
      });
      completed(bus, context, 'done');
    };
    const options = { execute, cluster: reExecuting({}, { turns: { drainTimeoutMs: 0, cancelTimeoutMs: 4_000 } }) };
    const [a, b] = [await fixture.start(options), await fixture.start(options)];
    const sender = Recording.send(await a.client(), 'hello');
    const { id } = await sender.task();
    await called.promise;
    const closed = a.close();
    await eventually(() => fixture.logger.warnings.some((line) => line.includes('outlast the drain time')));
    answer.resolve();
    await closed;
    await leases.due(id);
    await sweep(b);
    expect(stateName(await ended(await b.client(), id))).toBe('COMPLETED');
    expect(calls).toBe(1);
  });

  test('O37 FAILED names every effect, and none is begun while it is being written', async () => {
    const outcomes: unknown[] = [];
    const app = await fixture.start({
      execute: async (context, bus) => {
        const { turn } = context;
        working(bus, context);
        const begun = new Deferred();
        const slow = turn.effect('a', { replay: 'never' }, async () => {
          begun.resolve();
          await new Promise((resolve) => setTimeout(resolve, 50));
          throw new Error('no answer');
        });
        slow
          .catch((error: unknown) => outcomes.push(error))
          .finally(() => {
            turn.effect('b', { replay: 'never' }, () => 1).catch((error: unknown) => outcomes.push(error));
          });
        await begun.promise;
        throw new Error('boom');
      },
    });
    const { status } = await send(await app.client(), 'hello');
    expect(status?.state).toBe(TaskState.TASK_STATE_FAILED);
    expect(status?.message?.metadata?.[EFFECTS_METADATA_KEY]).toMatchObject([{ key: 'a', replay: 'never' }]);
    await eventually(() => outcomes.length === 2);
    expect(String(outcomes[1])).toContain('comes too late');
  });

  test('I6 what is certainly not run again needs no slot', async () => {
    const holds = new Deferred();
    let unresolved = '';
    const execute = async (context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> => {
      working(bus, context);
      if (context.taskId === unresolved || !unresolved) {
        unresolved ||= context.taskId;
        await context.turn.effect('charge', { replay: 'never' }, () => holds.promise);
      }
      await holds.promise;
      completed(bus, context);
    };
    const [dead, b] = [
      await fixture.start({ execute, cluster: reExecuting({}, UNAWARE) }),
      await fixture.start({ execute, cluster: reExecuting({ maxConcurrentRecoveries: 1 }) }),
    ];
    const client = await dead.client();
    const { id: never } = await Recording.send(client, 'one').task();
    await eventually(async () => (await fixture.database.query('SELECT 1 FROM a2a_task_effects')).length === 1);
    const { id: running } = await Recording.send(client, 'two').task();
    await leases.abandon(running);
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await leases.abandon(never);
    expect(await sweep(b)).toMatchObject({ claimed: 1, failed: 1 });
    holds.resolve();
    await ended(client, running);
    await leases.gone();
  });
});

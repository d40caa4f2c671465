import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import { Module, Scope } from '@nestjs/common';
import { type RecoveryPolicy, type SweeperOptions, TurnRequestContext } from 'nestjs-a2a-cluster';
import { cancel, errorName, getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import {
  begin,
  DEAD,
  agentWhoseReplicaDies,
  hang,
  historyOf,
  RecoveryFixture,
  reExecuting,
  statusText,
  sweep,
} from './abandoned-turns.fixture.js';
import { type AgentBehaviour } from './agent-app.fixture.js';
import { agentMessage, completed, inputRequired, publishStatus, textOf } from './agent-events.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe('Slots', () => {
  test('bound the turns that are run again at once; the others stay unclaimed, their attempts uncounted', async () => {
    const finish = new Deferred();
    let running = 0;
    let most = 0;
    const agent = agentWhoseReplicaDies(async (context, bus) => {
      most = Math.max(most, ++running);
      await finish.promise;
      running -= 1;
      completed(bus, context);
    });
    const cluster = reExecuting({ maxConcurrentRecoveries: 2, batchSize: 3 });
    const { b, atA, ids } = await fixture.abandonedEach(agent, ['1', '2', '3', '4', '5'], cluster);
    const before = await Promise.all(ids.map((id) => leases.find(id)));
    expect(await sweep(b)).toMatchObject({ claimed: 2, reExecuted: 2, left: 0 });
    expect(await sweep(b)).toMatchObject({ claimed: 0 });
    const after = await Promise.all(ids.map((id) => leases.find(id)));
    const untouched = after.filter((lease, at) => lease!.generation === before[at]!.generation);
    expect(untouched).toHaveLength(3);
    for (const lease of untouched) expect(lease).toMatchObject({ attempt: 1, holder: DEAD, expired: true });
    finish.resolve();
    await eventually(async () => {
      await sweep(b);
      return (await Promise.all(ids.map((id) => leases.find(id)))).every((lease) => lease === undefined);
    });
    expect(most).toBe(2);
    expect(agent.attempts.slice(5).sort()).toEqual(['1 2', '2 2', '3 2', '4 2', '5 2']);
    for (const id of ids) expect(stateName(await getTask(atA, id))).toBe('COMPLETED');
  });

  test('that get free are filled at once, and not only at the next interval', async () => {
    const agent = agentWhoseReplicaDies();
    const cluster = reExecuting({ maxConcurrentRecoveries: 2, batchSize: 3, intervalMs: 3_600_000 });
    const { b } = await fixture.abandonedEach(agent, ['1', '2', '3', '4', '5', '6', '7'], cluster);
    await sweep(b);
    await leases.gone();
    expect(agent.attempts.slice(7).sort()).toEqual(['1 2', '2 2', '3 2', '4 2', '5 2', '6 2', '7 2']);
  });

  const ways = {
    completes: (context, bus) => completed(bus, context),
    throws: () => Promise.reject(new Error('no luck')),
    asks: (context, bus) => inputRequired(bus, context),
    'answers with a message': (context, bus) => bus.publish({ kind: 'message', data: agentMessage(context, 'hi') }),
    'returns without a word': () => undefined,
    'takes too long': () => hang(),
    'is canceled': () => hang(),
    'loses its lease': () => hang(),
    'cannot be made': () => undefined,
    'asks, and goes on': async (context, bus) => {
      inputRequired(bus, context);
      await hang();
    },
  } satisfies Record<string, (context: TurnRequestContext, bus: ExecutionEventBus) => Promise<void> | void>;

  test.each(Object.keys(ways) as (keyof typeof ways)[])('one is free again when the turn %s', async (way) => {
    const started = new Deferred();
    const agent = agentWhoseReplicaDies(async (context, bus) => {
      if (textOf(context.userMessage) === 'second') return completed(bus, context);
      started.resolve();
      await ways[way](context, bus);
    });
    let broken = false;
    const factory = {
      provide: 'AGENT',
      scope: Scope.REQUEST,
      useFactory: () => {
        if (!broken) return { execute: agent.execute, cancelTask: () => Promise.resolve() };
        broken = false;
        started.resolve();
        throw new Error('no agent');
      },
    };
    @Module({ providers: [factory], exports: ['AGENT'] })
    class AgentModule {}
    const turns = { cancelTimeoutMs: 200, ...(way === 'takes too long' && { maxTurnDurationMs: 300 }) };
    const cluster = reExecuting({ maxConcurrentRecoveries: 1 }, { turns, executor: 'AGENT', imports: [AgentModule] });
    const [a, b] = [
      await fixture.start({ cluster: { ...cluster, turns: { cancelTimeoutMs: 200 } } }),
      await fixture.start({ cluster }),
    ];
    const atA = await a.client();
    const [first, second] = [await begin(atA, 'first'), await begin(atA, 'second')];
    await leases.abandon(first.id);
    broken = way === 'cannot be made';
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1 });
    await within(started.promise, 5_000, 'the first is run again');
    await leases.abandon(second.id);
    if (way === 'is canceled') expect(stateName(await cancel(atA, first.id))).toBe('CANCELED');
    if (way === 'loses its lease') {
      await fixture.database.query(
        `DELETE FROM a2a_task_leases WHERE task_no = (SELECT task_no FROM a2a_tasks WHERE task_id = $1)`,
        [first.id],
      );
    }
    await eventually(async () => {
      await sweep(b);
      return stateName(await getTask(atA, second.id)) === 'COMPLETED';
    });
    if (way === 'cannot be made') {
      await leases.abandon(first.id);
      await sweep(b);
    }
    await leases.gone();
  });

  /** An app whose only slot is taken, and a client of it. */
  async function occupied(sweeper: Partial<SweeperOptions> = {}, execute?: AgentBehaviour['execute']) {
    const [over, started] = [new Deferred(), new Deferred()];
    const agent = agentWhoseReplicaDies(async (context, bus) => {
      started.resolve();
      await over.promise;
      completed(bus, context);
    });
    const run: AgentBehaviour['execute'] = (context, bus) =>
      execute && textOf(context.userMessage) !== 'first' ? execute(context, bus) : agent.execute!(context, bus);
    const cluster = reExecuting({ maxConcurrentRecoveries: 1, ...sweeper });
    const [a, b] = await fixture.startTwo({ execute: run, cluster });
    const [atA, atB] = [await a.client(), await b.client()];
    const { id } = await begin(atA, 'first');
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await started.promise;
    return { atA, atB, b, agent, over, id };
  }

  test.each(['a policy by name', 'a policy that is a function'])(
    'turns that need none are ended although all are taken: canceled ones, and those with no attempt left (%s)',
    async (kind) => {
      const policy: RecoveryPolicy = kind === 'a policy by name' ? 're-execute' : () => ({ decision: 're-execute' });
      const { atA, b, agent, over } = await occupied({ policy });
      const [canceled, cancelTurn, usedUp, other] = [
        await begin(atA, 'flagged'),
        await begin(atA, 'cancel turn'),
        await begin(atA, 'used up'),
        await begin(atA, 'other'),
      ];
      await leases.abandon(canceled.id, cancelTurn.id, usedUp.id, other.id);
      await leases.flagCancel(canceled.id);
      await leases.set(cancelTurn.id, "kind = 'cancel'");
      await leases.set(usedUp.id, 'attempt = 3');
      expect(await sweep(b)).toMatchObject({ claimed: 3, canceled: 2, failed: 1, reExecuted: 0 });
      expect(await leases.find(other.id)).toMatchObject({ attempt: 1, holder: DEAD });
      expect(statusText(await getTask(atA, usedUp.id))).toContain('It was run 3 times');
      expect(agent.attempts).toHaveLength(6);
      over.resolve();
      await eventually(async () => {
        await sweep(b);
        return stateName(await getTask(atA, other.id)) === 'COMPLETED';
      });
    },
  );

  test('a follow-up to an abandoned task is refused within a heartbeat while none is free, and a cancel is not', async () => {
    const { atA, atB, agent, over } = await occupied();
    const { id } = await begin(atA, 'second');
    await leases.abandon(id);
    const before = await leases.find(id);
    const asked = performance.now();
    expect(await errorName(send(atB, 'more', { taskId: id }))).toBe('UnsupportedOperationError');
    expect(performance.now() - asked).toBeLessThan(2_000);
    expect(await leases.find(id)).toMatchObject({ generation: before!.generation, attempt: 1, holder: DEAD });
    expect(historyOf(await getTask(atA, id))).toEqual(['second']);
    expect(stateName(await within(cancel(atB, id), 2_000, 'the cancel'))).toBe('CANCELED');
    expect(agent.attempts.filter((run) => run.startsWith('second'))).toEqual(['second 1']);
    over.resolve();
  });

  test('a follow-up to a task that waits needs none: what its dead replica left is dropped, and it is admitted', async () => {
    const { atA, atB, over } = await occupied({}, async (context, bus) => {
      if (context.task) return completed(bus, context);
      publishStatus(bus, context, 8);
      await context.turn.flush();
      await hang();
    });
    const { id } = await begin(atA, 'auth');
    await leases.abandon(id);
    expect(stateName(await send(atB, 'here it is', { taskId: id }))).toBe('COMPLETED');
    over.resolve();
  });
});

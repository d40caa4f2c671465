import {
  EFFECTS_METADATA_KEY,
  type EffectCall,
  type EffectContract,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import {
  InMemoryEffectStore,
  InMemoryLeaseStore,
  InMemoryTaskStore,
  inMemoryStores,
} from '../../libs/a2a-cluster/src/testing/index.js';
import { getTask } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import {
  agentByAttempt,
  artifactsOf,
  begin,
  ended,
  hang,
  historyOf,
  RecoveryFixture,
  reExecuting,
  statusText,
  sweep,
  UNAWARE,
} from './abandoned-turns.fixture.js';
import { artifactOf, completed, publishArtifact, textPart, working } from './agent-events.js';

const fixture = new RecoveryFixture();

interface EffectRow {
  key: string;
  state: string;
  attempt: number;
  result: string | null;
}

const effectsOf = (taskId: string): Promise<EffectRow[]> =>
  fixture.database.query<EffectRow & Record<string, unknown>>(
    `SELECT e.key, e.state, e.attempt, e.result FROM a2a_task_effects AS e JOIN a2a_tasks USING (task_no)
      WHERE task_id = $1 ORDER BY key`,
    [taskId],
  );

/** An outside that counts what it is asked, and never answers the first time. */
class Outside {
  readonly calls: EffectCall[] = [];
  readonly reached = new Deferred();

  charge = async (call: EffectCall): Promise<string> => {
    this.calls.push(call);
    if (this.calls.length > 1) return `receipt ${this.calls.length}`;
    this.reached.resolve();
    return hang().then(() => '');
  };
}

/** The executor of one effect, whose first dispatch never comes back. */
const charging =
  (outside: Outside, contract: EffectContract<string>) =>
  async (context: TurnRequestContext, bus: Parameters<typeof working>[0]): Promise<void> => {
    working(bus, context);
    completed(bus, context, await context.turn.effect('charge', contract, outside.charge));
  };

describe('O39 an effect of a turn that is run again', () => {
  test('that succeeded is not dispatched again, and gives its recorded result', async () => {
    const calls: EffectCall[] = [];
    const charged = (context: TurnRequestContext) =>
      context.turn.effect('charge', { replay: 'never' }, (call) => {
        calls.push(call);
        return { receipt: calls.length };
      });
    const agent = agentByAttempt(
      async (context) => {
        await charged(context);
        await hang();
      },
      async (context, bus) => completed(bus, context, JSON.stringify(await charged(context))),
    );
    const { b, atB, id } = await fixture.abandoned(agent, {
      once: ({ id }) => eventually(async () => (await effectsOf(id))[0]?.state === 'succeeded'),
    });
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    const task = await ended(atB, id);
    expect([stateName(task), statusText(task)]).toEqual(['COMPLETED', '{"receipt":1}']);
    expect(calls).toHaveLength(1);
    expect(await effectsOf(id)).toEqual([{ key: 'charge', state: 'succeeded', attempt: 1, result: '{"receipt":1}' }]);
  });

  test('never, and unresolved: not run again, FAILED with the evidence', async () => {
    const outside = new Outside();
    const agent = agentByAttempt(charging(outside, { replay: 'never' }), charging(outside, { replay: 'never' }));
    const { b, atB, id } = await fixture.abandoned(agent, { once: () => outside.reached.promise });
    expect(await sweep(b)).toMatchObject({ failed: 1, reExecuted: 0 });
    const task = await getTask(atB, id);
    expect(statusText(task)).toMatch(
      /'charge' must not be repeated.*is not known: 'charge' \(dispatched at .* in attempt 1/,
    );
    expect(task.status?.message?.metadata?.[EFFECTS_METADATA_KEY]).toEqual([
      {
        key: 'charge',
        replay: 'never',
        attempt: 1,
        dispatchedAt: expect.stringMatching(/Z$/) as string,
        idempotencyKey: outside.calls[0]!.idempotencyKey,
      },
    ]);
    expect([outside.calls.length, agent.runs.length]).toEqual([1, 1]);
  });

  test('idempotent, and unresolved: dispatched again with the same key and a greater token', async () => {
    const outside = new Outside();
    const run = charging(outside, { replay: 'idempotent' });
    const agent = agentByAttempt(run, run);
    const { b, atB, id } = await fixture.abandoned(agent, { once: () => outside.reached.promise });
    await sweep(b);
    expect(statusText(await ended(atB, id))).toBe('receipt 2');
    const [first, second] = outside.calls;
    expect(second!.idempotencyKey).toBe(first!.idempotencyKey);
    expect(second!.fencingToken!).toBeGreaterThan(first!.fencingToken!);
    expect(await effectsOf(id)).toMatchObject([{ state: 'succeeded', attempt: 2 }]);
  });
});

describe('Two apps with stores in memory', () => {
  const scopeOf = (taskId: string) => ({ tenant: '', owner: 'unknown', taskId });

  test.each(['all given', 'effects left to the helper'])(
    'run a turn again, and its effects only as they may be (%s)',
    async (form) => {
      const shared = { tasks: new InMemoryTaskStore(), leases: new InMemoryLeaseStore() };
      const stores = form === 'all given' ? { ...shared, effects: new InMemoryEffectStore() } : shared;
      const calls: string[] = [];
      const effects = async ({ turn }: TurnRequestContext) => {
        const done = await turn.effect('done', { replay: 'never' }, () => {
          calls.push('done');
          return calls.length;
        });
        const again = await turn.effect('again', { replay: 'idempotent' }, async (call) => {
          calls.push(`again ${call.idempotencyKey}`);
          return turn.attempt === 1 ? hang() : undefined;
        });
        return [done, again];
      };
      const agent = agentByAttempt(
        async (context, bus) => {
          publishArtifact(bus, context, artifactOf('out', textPart('one')));
          await effects(context);
        },
        async (context, bus) => {
          publishArtifact(bus, context, artifactOf('out', textPart('uno')), true);
          completed(bus, context, JSON.stringify(await effects(context)));
        },
      );
      const a = await fixture.start({
        ...agent,
        cluster: reExecuting({}, { ...UNAWARE, extraProviders: inMemoryStores(stores) }),
      });
      const b = await fixture.start({
        ...agent,
        cluster: reExecuting({}, { extraProviders: inMemoryStores(stores) }),
      });
      const { id } = await begin(await a.client());
      await eventually(() => calls.length === 2);
      stores.leases.expire(scopeOf(id));
      expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1 });
      const task = await ended(await b.client(), id);
      expect([stateName(task), historyOf(task), artifactsOf(task)]).toEqual([
        'COMPLETED',
        ['work', '[1,null]'],
        { out: ['uno'] },
      ]);
      const [done, first, second] = calls;
      expect([done, calls.length]).toEqual(['done', 3]);
      expect(second).toBe(first);
      expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 2]);
      expect(stores.leases.size).toBe(0);
    },
  );

  test('fail a turn with an unresolved effect, hand one over, and leave one alone', async () => {
    const stores = {
      tasks: new InMemoryTaskStore(),
      leases: new InMemoryLeaseStore(),
      effects: new InMemoryEffectStore(),
    };
    const decisions = ['leave', 're-execute'] as const;
    let asked = 0;
    const policy = () => ({ decision: decisions[asked++] ?? 're-execute' }) as const;
    const agent = agentByAttempt(async (context, bus) => {
      if (agent.runs.length === 1) {
        working(bus, context);
        await context.turn.flush();
        return hang();
      }
      await context.turn.effect('charge', { replay: 'never' }, () => {
        void reached.resolve();
        return hang();
      });
    });
    const reached = new Deferred();
    const cluster = { ...UNAWARE, turns: { drainTimeoutMs: 50 }, extraProviders: inMemoryStores(stores) };
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting({ policy }, cluster) });
    const { id } = await begin(await a.client());
    await a.close();
    expect(await sweep(b)).toMatchObject({ left: 1 });
    expect(await sweep(b)).toMatchObject({ claimed: 0 });
    stores.leases.expire(scopeOf(id));
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await reached.promise;
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 1]);
    stores.leases.expire(scopeOf(id));
    expect(await sweep(b)).toMatchObject({ failed: 1 });
    const task = await getTask(await b.client(), id);
    expect(statusText(task)).toContain("'charge' must not be repeated");
    expect(stores.leases.size).toBe(0);
  });
});

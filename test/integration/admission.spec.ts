import type { Admission } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { Deferred } from '../../tools/harness/wait.js';
import { newScope, useCluster } from './cluster.fixture.js';
import { artifact, AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, message, status, textOf } from './events.fixture.js';
import { type DatabaseFactory, InterceptedDatabase, withoutGuard } from './faults.fixture.js';
import { expireLeases, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

/** What a decision reads, once it has the task's row lock. */
const DECIDE = 'AS "leaseGeneration"';

describe('Admission of follow-ups', () => {
  const cluster = useCluster();

  /**
   * A has read what it decides from and not written yet; B comes, and either waits for A or decides from the same.
   */
  async function twoFollowUpsAtOnce(database?: DatabaseFactory) {
    const first = new Deferred();
    const resumed = new Deferred();
    let decided = 0;
    const held: DatabaseFactory = (...args) => {
      const inner = (database?.(...args) ?? new InterceptedDatabase(...args)) as InterceptedDatabase;
      const rewrite = inner.intercept;
      inner.intercept = async (sql, run) => {
        const rows = await rewrite(sql, run);
        if (!sql.includes(DECIDE)) return rows;
        decided += 1;
        first.resolve();
        await resumed.promise;
        return rows;
      };
      return inner;
    };
    const [a, b] = [await cluster.replica({ database: held }), await cluster.replica({ database: held })];
    const { scope, taskNo } = await (await cluster.replica()).waiting();
    const admit = (replica: typeof a, text: string): Promise<Admission | Error> =>
      replica.admit(scope, message(text)).catch((error: Error) => error);
    const admissions = [admit(a, 'from a')];
    await first.promise;
    admissions.push(admit(b, 'from b'));
    await untilBlocked(cluster.db, 1, () => decided === 2);
    resumed.resolve();
    return { taskNo, scope, a, outcomes: await Promise.all(admissions) };
  }

  it('O16 two messages for one waiting task at once: one turn, the other is busy and leaves no trace', async () => {
    const { taskNo, scope, a, outcomes } = await twoFollowUpsAtOnce();
    expect(outcomes).toMatchObject([{ outcome: 'admitted' }, { outcome: 'busy', waiting: false }]);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status INPUT_REQUIRED', 'userMessage from a']);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: a.holderId, admittedVersion: 3 });
    expect((await a.tasks.find(scope))?.task.history.map(textOf)).toEqual(['go on', 'from a']);
  });

  it('O16 negative control: decided without the task lock, both find the task free', async () => {
    const guard = withoutGuard([/(t\.agent = \$\d+)\s+FOR UPDATE/, '$1']);
    const { outcomes } = await twoFollowUpsAtOnce(guard.database);
    guard.expectGone();
    // What then stops the second turn is the version, too late for the answer that its client is owed.
    expect(outcomes.filter((it) => !(it instanceof Error) && it.outcome === 'busy')).toEqual([]);
  });

  it('O16 ten at once through the whole admission: one turn, its message once, nine refused', async () => {
    const replicas = await cluster.replicas(10);
    const { scope, taskNo } = await replicas[0]!.waiting();
    const outcomes = await Promise.allSettled(
      replicas.map((replica, at) => replica.followUp(scope, message(`m${at}`))),
    );
    const [admitted] = outcomes.flatMap((outcome, at) => (outcome.status === 'fulfilled' ? [at] : []));
    const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []));
    expect(refusals.map(({ name }) => name)).toEqual(Array(9).fill('UnsupportedOperationError'));
    expect((await logOf(cluster.db, taskNo)).slice(2)).toEqual([`userMessage m${admitted}`]);
  });

  it('O18 a follow-up while a turn runs is refused and changes nothing', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo, generation } = await a.working();
    for (const replica of [a, b]) {
      await expect(replica.followUp(scope)).rejects.toMatchObject({ name: 'UnsupportedOperationError' });
      expect(replica.heartbeat.generations).toEqual(replica === a ? [generation] : []);
    }
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation });
  });

  it('O19 a follow-up in the gap between visible AUTH_REQUIRED and release waits, then is accepted', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo, generation } = await a.working();
    loop.add(status(scope, AUTH_REQUIRED));
    await turn.flush();
    expect(await b.admit(scope)).toEqual({ outcome: 'busy', waiting: true });
    const following = b.followUp(scope, message('done'));
    expect(await a.leases.release(generation)).toBe(true);
    expect((await following).fencingToken).toBeGreaterThan(generation);
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('userMessage done');
  });

  it('O19 a turn that has not spoken since it was admitted is running, not waiting', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope } = await a.waiting();
    await a.followUp(scope);
    expect(await b.admit(scope)).toEqual({ outcome: 'busy', waiting: false });
  });

  it('I1 every state of task and lease has its answer', async () => {
    const a = await cluster.replica();
    const admit = async (scope = newScope(), said = message()) => (await a.admit(scope, said)).outcome;
    expect(await admit()).toBe('unknown');
    const foreign = await a.stored(); // WORKING, and nobody's lease
    expect(await admit(foreign.scope)).toBe('busy');
    const { scope, loop, turn, taskNo } = await a.working();
    await expireLeases(cluster.db, taskNo);
    expect(await admit(scope)).toBe('abandoned');
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    expect(await admit(scope, { ...message(), contextId: 'of another' })).toBe('otherContext');
    expect(await admit({ ...scope, owner: 'somebody else' })).toBe('unknown');
    expect(await admit({ ...scope, tenant: 'another' })).toBe('unknown');
    expect(await admit(scope)).toBe('admitted');
    expect(await logOf(cluster.db, taskNo)).toHaveLength(3);
  });

  it('O49 the message of a follow-up is in its turn, and what its executor publishes follows on it', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const turn = await b.followUp(scope, message('answer'));
    expect(turn.admittedTask).toMatchObject({ version: 3, task: { history: [{}, { taskId: scope.taskId }] } });
    turn.loop!.add(artifact(scope, 'a1'));
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    const log = await logOf(cluster.db, taskNo);
    expect(log.slice(2)).toEqual(['userMessage answer', 'artifact a1', 'status COMPLETED']);
  });
});

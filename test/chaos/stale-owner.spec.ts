import { getTask, send } from '../../tools/harness/client.js';
import { LOAD_MS, type Member, SLOW_MS, TestCluster } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { SqlPoints } from '../helpers/sql-points.js';
import { expectEnded, expectFollowed, lastTaskId, readLog } from '../helpers/task-log.js';

const TIMES = { ttl: 1_500, sweep: 250 };
const ENVIRONMENT = { A2A_TTL_MS: TIMES.ttl, A2A_HEARTBEAT_MS: 400, A2A_SWEEP_MS: TIMES.sweep };

/** Statements of a turn's outside action, by what comes before them. */
const BEFORE = {
  charge: 'WITH attempt AS',
  secondStatement: '"merchant"',
  commit: '^COMMIT ',
};

/** The guards of a fenced transaction, taken away: the look at the lease's row, and the server's limits. */
const WITHOUT_FENCE: [string, string][] = [
  [
    'SELECT generation, cancel_requested_at IS NOT NULL AS canceled[^]*> clock_timestamp\\(\\) FOR KEY SHARE',
    'SELECT $2::bigint AS generation, false AS canceled WHERE $1::bigint > 0',
  ],
  ['^SET LOCAL lock_timeout[^]*session_timeout = \\d+; ', ''],
];

/** What is left when everybody is through with a task. */
interface Counts {
  dispatchAttempts: number;
  acceptedEffects: number;
  /** Writes of the old owner that were refused or dropped. */
  refusedWrites: number;
  storedState: string;
  /** What a client saw that followed at another replica. */
  remoteState: string;
}

/** An old executor is held up at one exact point, its task is ended elsewhere, and it goes on. */
describe('A stale owner and the outside', () => {
  let cluster: TestCluster;
  const points = new SqlPoints();

  beforeAll(async () => {
    cluster = await TestCluster.start(ENVIRONMENT, ['B']);
    await cluster.add('A', points.environment);
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  const lines = ({ process }: Member, text: string): number =>
    process.output.filter((line) => line.includes(text)).length;

  const ledger = async (taskId: string): Promise<Pick<Counts, 'dispatchAttempts' | 'acceptedEffects'>> =>
    (await (await fetch(`${cluster.b.url}/ledger/${taskId}`)).json()) as Counts;

  async function counts(a: Member, taskId: string, remoteState: string): Promise<Counts> {
    return {
      ...(await ledger(taskId)),
      refusedWrites: lines(a, `task ${taskId}: late event refused: A2A_LEASE_LOST`),
      storedState: stateName(await getTask(cluster.b.client, taskId)),
      remoteState,
    };
  }

  /** Runs a text at A, which stands still before a statement until the task has ended elsewhere, and then goes on. */
  async function heldUp(point: keyof typeof BEFORE, text: string, armed = points): Promise<Counts> {
    const { a } = cluster;
    const { paused } = await armed.arm(a.process, BEFORE[point], LOAD_MS);
    const sender = Recording.send(a.client, text);
    await paused();
    // Stored before anything is dispatched; the sender may not have been told any more.
    const id = await lastTaskId(cluster.database);
    const watcher = Recording.subscribe(cluster.b.client, id);
    try {
      await watcher.task();
      await watcher.finished(TIMES.ttl + TIMES.sweep + LOAD_MS);
    } finally {
      await a.process.thaw();
    }
    await a.process.waitForLine(new RegExp(`^task ${id}: late event (refused|accepted)`));
    const stored = await readLog(cluster.database, id);
    expectEnded(stored, 'FAILED');
    expectFollowed(watcher.responses, stored);
    await sender.finished();
    return counts(a, id, stored.state);
  }

  it(
    'O38 what is dispatched, accepted, refused and stored: normal, task fence only, fenced resource',
    async () => {
      const done = await send(cluster.a.client, 'charge 5 never');
      const table = {
        normal: await counts(cluster.a, done.id, stateName(done)),
        taskFenceOnly: await heldUp('charge', 'charge 5 never'),
        fencedResource: await heldUp('secondStatement', 'transfer 5'),
      };
      expect(table).toEqual({
        normal: row(1, 1, 0, 'COMPLETED', 'COMPLETED'),
        taskFenceOnly: row(1, 1, 1, 'FAILED', 'FAILED'),
        fencedResource: row(1, 0, 1, 'FAILED', 'FAILED'),
      });
    },
    SLOW_MS,
  );

  // At each other point of a transfer: race-points/frozen.
  it(
    'O60 transfer, held up past the TTL before its COMMIT: nothing of the stale owner is accepted',
    async () => {
      expect(await heldUp('commit', 'transfer 5')).toMatchObject({ acceptedEffects: 0, storedState: 'FAILED' });
    },
    SLOW_MS,
  );

  it(
    'O60 negative control: without the fence, a transfer that is held up before its COMMIT is accepted beside FAILED',
    async () => {
      await cluster.kill('A');
      const unfenced = new SqlPoints(WITHOUT_FENCE);
      const a = await cluster.add('A', unfenced.environment);
      const counted = await heldUp('commit', 'transfer 5\nstream 3 500', unfenced);
      expect(counted).toMatchObject({ acceptedEffects: 1, storedState: 'FAILED' });
      expect(lines(a, 'sql-points: rewritten')).toBeGreaterThanOrEqual(2);
    },
    SLOW_MS,
  );
});

const row = (
  dispatchAttempts: number,
  acceptedEffects: number,
  refusedWrites: number,
  storedState: string,
  remoteState: string,
): Counts => ({ dispatchAttempts, acceptedEffects, refusedWrites, storedState, remoteState });

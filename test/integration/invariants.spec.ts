import { randomInt } from 'node:crypto';
import { CommitOutcomeUnknownError } from '../../libs/a2a-cluster/src/errors/commit-outcome-unknown.error.js';
import { canceled } from '../../libs/a2a-cluster/src/turns/status-events.js';
import { TaskCanceledError } from '../../libs/a2a-cluster/src/errors/task-canceled.error.js';
import {
  callContextOf,
  isLost,
  newScope,
  type Replica,
  runningTurn,
  type RunningTurn,
  useCluster,
} from './cluster.fixture.js';
import { artifact, COMPLETED, INPUT_REQUIRED, message, status, summaryOf } from './events.fixture.js';
import { connectionReset, interceptable } from './faults.fixture.js';
import { expireLeases, leaseRow, logOf } from './rows.fixture.js';

const ROUNDS = 25;
const ACTORS = 5;
const STEPS = 8;
const TERMINAL = ['status COMPLETED', 'status FAILED', 'status CANCELED'];

/** Repeatable choices: the seed is in the message of whatever fails. */
function chooser(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    chance: (part: number) => next() < part,
    of: <T>(choices: readonly T[]): T => choices[Math.floor(next() * choices.length)]!,
  };
}

type Chooser = ReturnType<typeof chooser>;

/** The turn has lost its lease, or is to be canceled: either way what it publishes is refused. */
const isStopped = (error: unknown): boolean => isLost(error) || error instanceof TaskCanceledError;

describe('Everything at once', () => {
  const cluster = useCluster();

  /** A replica whose commits lose their answer now and then, done or not done. */
  async function unreliable(choose: Chooser): Promise<Replica> {
    const faults = interceptable();
    const replica = await cluster.replica({ database: faults.database });
    const database = faults.get();
    database.intercept = async (sql, run) => {
      if (!sql.includes('INSERT INTO "a2a_task_events"') || !choose.chance(0.15)) return run();
      if (choose.chance(0.5)) await run();
      throw connectionReset();
    };
    database.interceptTransaction = async (run) => {
      if (!choose.chance(0.15)) return run();
      if (choose.chance(0.5)) await run();
      else await run(() => Promise.reject(connectionReset())).catch(() => undefined);
      throw new CommitOutcomeUnknownError(connectionReset());
    };
    return replica;
  }

  /** What was said to have been done, to be found in the log. */
  class Books {
    accepted: string[] = [];
    refused: string[] = [];
    stored: string[] = [];
    turns: RunningTurn[] = [];
    private counter = 0;
    private busy = Promise.resolve();

    /** The test's own connection does one thing at a time. */
    alone = (work: () => Promise<void>): Promise<void> => (this.busy = this.busy.then(work));

    next = (what: string): string => `${what}${(this.counter += 1)}`;
  }

  /** One actor: it does this and that to the task, at some replica, in some order. */
  async function act(choose: Chooser, replicas: Replica[], first: RunningTurn, books: Books): Promise<void> {
    const { scope, taskNo } = first;
    const publish = async (): Promise<void> => {
      const { loop, turn } = choose.of(books.turns);
      const id = books.next('a');
      if (!loop.add(artifact(scope, id))) return;
      await turn.flush().then(
        () => books.stored.push(`artifact ${id}`),
        (error: unknown) => expect(isStopped(error)).toBe(true),
      );
    };
    const say = async (): Promise<void> => {
      const { loop, turn } = choose.of(books.turns);
      loop.add(status(scope, choose.chance(0.8) ? INPUT_REQUIRED : COMPLETED));
      await turn.flush().catch((error: unknown) => expect(isStopped(error)).toBe(true));
    };
    const followUp = async (): Promise<void> => {
      const text = books.next('m');
      try {
        const turn = await choose.of(replicas).followUp(scope, message(text));
        books.accepted.push(`userMessage ${text}`);
        // Without a loop it is lost: accepted, but its answer and then its lease were lost; others bring it to its end.
        if (turn.loop) books.turns.push(runningTurn(scope, turn));
        else expect(await turn.outcome).toMatchObject({ kind: 'lost' });
      } catch (error) {
        const { name, message: detail } = error as Error;
        expect(`${name}: ${detail}`).toMatch(/^(UnsupportedOperationError|.*ECONNRESET)/);
        books.refused.push(`userMessage ${text}`);
      }
    };
    const save = async (): Promise<void> => {
      const [{ tasks }, call] = [choose.of(replicas), callContextOf(scope)];
      const loaded = await tasks.load(scope.taskId, call);
      await tasks.save({ ...loaded!, metadata: { [books.next('k')]: 1 } }, call).catch(expected);
    };
    const cancel = async (): Promise<void> => {
      const { tasks } = choose.of(replicas);
      const lease = choose.of(replicas).leaseRequest('cancel');
      await tasks.requestCancel(scope, lease).catch(expected);
    };
    const force = async (): Promise<void> => {
      const ids = { taskId: scope.taskId, contextId: `context of ${scope.taskId}` };
      await choose
        .of(replicas)
        .tasks.forceEnd(scope, () => canceled(ids))
        .catch(expected);
    };
    const sweep = async (): Promise<void> => {
      await books.alone(() => expireLeases(cluster.db, taskNo));
      await choose.of(replicas).sweeper.runOnce();
    };
    const beat = (): Promise<unknown> => choose.of(replicas).heartbeat.runOnce();
    const poll = (): Promise<void> => choose.of(replicas).poller.runOnce();
    const often = [publish, publish, publish, followUp, followUp, say, say, save, beat, poll];
    for (let step = 0; step < STEPS; step += 1) {
      await (choose.chance(0.85) ? choose.of(often) : choose.of([sweep, sweep, cancel, force]))();
    }
  }

  /** What a caller of the stores has to live with: a lost race, a lost connection. */
  function expected(error: unknown): void {
    const names = ['ConcurrentTaskModificationError', 'CommitOutcomeUnknownError', 'LeaseLostError'];
    const { name, message: text } = error as Error;
    if (!names.includes(name) && !text.includes('ECONNRESET')) throw error;
  }

  /** Every event after version 1, as one replica's follower sees them. */
  async function follow({ stream }: Replica, taskNo: number): Promise<string[]> {
    const seen: string[] = [];
    for await (const { version, event } of stream.follow(taskNo, 1, new AbortController().signal)) {
      seen.push(`${version} ${summaryOf(event)}`);
    }
    return seen;
  }

  async function round(seed: number): Promise<void> {
    const choose = chooser(seed);
    const calm = await cluster.replica();
    const replicas = [await unreliable(choose), await unreliable(choose), await unreliable(choose)];
    const books = new Books();
    const scope = newScope();
    const first = await replicas[0]!.working(scope);
    books.turns.push(first);
    const { taskNo } = first;
    const following = [calm, ...replicas].map((replica) => follow(replica, taskNo));
    await Promise.all(Array.from({ length: ACTORS }, () => act(choose, replicas, first, books)));
    // The end, where it has not come yet: whoever still runs is dead, and whoever waits waits no longer.
    await expireLeases(cluster.db, taskNo);
    await calm.sweeper.runOnce();
    await calm.tasks.forceEnd(scope, () => canceled({ taskId: scope.taskId, contextId: 'c' }));
    let ended = false;
    const followed = Promise.all(following).finally(() => (ended = true));
    while (!ended) {
      await Promise.all([...[calm, ...replicas].map(({ poller }) => poller.runOnce()), new Promise(setImmediate)]);
    }
    const log = await logOf(cluster.db, taskNo); // I5: dense, and as long as the version says
    expect(log.filter((event) => TERMINAL.includes(event))).toEqual([log.at(-1)]); // I4
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined(); // I2
    const times = (what: string): number => log.filter((event) => event === what).length;
    for (const accepted of books.accepted) expect([accepted, times(accepted)]).toEqual([accepted, 1]);
    for (const refused of books.refused) expect([refused, times(refused)]).toEqual([refused, 0]);
    for (const stored of books.stored) expect([stored, times(stored)]).toEqual([stored, 1]);
    expect(new Set(log.filter((event) => event.startsWith('artifact'))).size).toBe(
      log.filter((event) => event.startsWith('artifact')).length,
    );
    const rest = log.slice(1).map((event, at) => `${at + 2} ${event}`);
    for (const seen of await followed) expect(seen).toEqual(rest); // I5
    const { task, version } = (await calm.tasks.find(scope))!;
    expect(version).toBe(log.length);
    expect(task.artifacts).toHaveLength(log.filter((event) => event.startsWith('artifact')).length);
    await Promise.all([calm, ...replicas].map((replica) => replica.close()));
  }

  it('I1 to I5 hold whatever turns, follow-ups, cancels, sweeps, saves and broken connections do', async () => {
    for (let at = 0; at < ROUNDS; at += 1) {
      const seed = randomInt(2 ** 31);
      try {
        await round(seed);
      } catch (error) {
        throw new Error(`Round ${at + 1} with seed ${seed}`, { cause: error });
      }
    }
  }, 120_000);
});

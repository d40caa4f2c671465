import { jest } from '@jest/globals';
import { AgentEvent } from '@a2a-js/sdk/server';
import type { CommitLoop } from '../../libs/a2a-cluster/src/turns/commit-loop.js';
import { FencedEventBus } from '../../libs/a2a-cluster/src/turns/fenced-event-bus.js';
import { useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, status, WORKING } from './events.fixture.js';

const GATHERING_MS = 10;

describe('Chunks that follow each other fast', () => {
  const cluster = useCluster();

  // The replica's clock stands still, so that nothing waits long enough by itself.
  const stopClock = () =>
    jest.useFakeTimers({
      doNotFake: [
        ...(['Date', 'hrtime', 'nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] as const),
        ...(['setInterval', 'clearInterval'] as const),
      ],
    });

  afterEach(() => {
    jest.useRealTimers();
  });

  /** The versions that each commit has stored, in their order. */
  const commitsOf = async (taskNo: number): Promise<number[][]> => {
    const rows = await cluster.db.query<{ versions: number[] }>(
      `SELECT array_agg(version ORDER BY version) AS versions FROM a2a_task_events
        WHERE task_no = $1 GROUP BY commit_id ORDER BY min(version)`,
      [taskNo],
    );
    return rows.map(({ versions }) => versions);
  };

  /** Waits until something follows that version, without a timer. */
  const nextCommit = async (loop: CommitLoop, version = 3): Promise<void> => {
    while (loop.key?.version === version) await new Promise((resolve) => setImmediate(resolve));
  };

  /** A turn that has just committed, after a while: version 3. */
  async function justCommitted() {
    const running = await (await cluster.replica()).working();
    stopClock();
    for (let state = 0; state < 2; state += 1) {
      jest.advanceTimersByTime(1_000);
      running.loop.add(status(running.scope, WORKING));
      await running.turn.flush();
    }
    return running;
  }

  /** So many chunks at a time, which are stored after so many ms, in one commit and not before. */
  async function storesAfter(waitsMs: readonly number[], chunksOf: readonly number[]): Promise<void> {
    const { scope, loop, taskNo } = await justCommitted();
    const expected = [[1], [2], [3]];
    for (const [at, waitMs] of waitsMs.entries()) {
      const chunks = chunksOf[at]!;
      const version = loop.key!.version;
      for (let chunk = 0; chunk < chunks; chunk += 1) loop.add(artifact(scope, `a${chunk}`));
      jest.advanceTimersByTime(waitMs - 1);
      await new Promise((resolve) => setImmediate(resolve));
      expect(loop.key!.version).toBe(version);
      jest.advanceTimersByTime(1);
      await nextCommit(loop, version);
      expected.push(Array.from({ length: chunks }, (_, place) => version + 1 + place));
    }
    expect(await commitsOf(taskNo)).toEqual(expected);
  }

  it('are stored some at a time: a millisecond after the last commit, then two, up to ten', () =>
    storesAfter([1, 2, 4, 8, 10, 10], [3, 3, 3, 3, 3, 3]));

  it('are stored each 20 ms while more than ten of them come in that time', () =>
    storesAfter([1, 2, 4, 8, 16, 20, 20, 10], [3, 3, 3, 11, 11, 11, 10, 10]));

  it('begin anew after a pause', async () => {
    const { scope, loop } = await justCommitted();
    const next = async (waitMs: number, pauseMs = 0): Promise<void> => {
      const version = loop.key!.version;
      jest.advanceTimersByTime(pauseMs);
      loop.add(artifact(scope, 'a'));
      jest.advanceTimersByTime(waitMs);
      await nextCommit(loop, version);
    };
    for (const waitMs of [1, 2, 4, 8]) await next(waitMs);
    await next(0, 21);
    await next(1);
    await next(2);
    expect(loop.key!.version).toBe(10);
  });

  it('wait no longer once a flush waits for them', async () => {
    const { scope, loop, turn, taskNo } = await justCommitted();
    loop.add(artifact(scope, 'a'));
    await turn.flush();
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4]]);
  });

  it('wait no longer for one flush that comes while a commit is under way', async () => {
    const { scope, loop, turn, taskNo } = await justCommitted();
    loop.add(status(scope, WORKING));
    loop.add(artifact(scope, 'a'));
    await turn.flush();
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4], [5]]);
  });

  it('do not keep a flush from ending that came before them', async () => {
    const { scope, loop, turn, taskNo } = await justCommitted();
    loop.add(artifact(scope, 'a'));
    let flushed = false;
    const flush = turn.flush().then(() => (flushed = true));
    for (let more = 0; more < 50 && !flushed; more += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      loop.add(artifact(scope, 'b', 'more', true));
    }
    await flush;
    expect(await commitsOf(taskNo)).toHaveLength(4);
    loop.close();
    await turn.flush();
  });

  it('go at once where maxQueuedBytes is near', async () => {
    const { scope, loop, turn, taskNo } = await justCommitted();
    const event = artifact(scope, 'a', 'x'.repeat(6_000));
    if (event.kind !== 'artifactUpdate') throw new Error('not a chunk');
    new FencedEventBus(turn, 10_000).publish(AgentEvent.artifactUpdate(event.artifactUpdate));
    await nextCommit(loop);
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4]]);
  });

  it('go with a state that follows them, which waits for nothing', async () => {
    const { scope, loop, turn, taskNo } = await justCommitted();
    loop.add(artifact(scope, 'a'));
    loop.add(status(scope, COMPLETED));
    await turn.outcome;
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4, 5]]);
  });

  it('go at once where they are many bytes', async () => {
    const { scope, loop, taskNo } = await justCommitted();
    loop.add(artifact(scope, 'a', 'x'.repeat(100_000)));
    await nextCommit(loop);
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4]]);
  });

  it('are no matter for a chunk that comes later than that', async () => {
    const { scope, loop, taskNo } = await justCommitted();
    jest.advanceTimersByTime(GATHERING_MS);
    loop.add(artifact(scope, 'a'));
    await nextCommit(loop);
    expect(await commitsOf(taskNo)).toEqual([[1], [2], [3], [4]]);
  });
});

import { TaskState } from '@a2a-js/sdk';
import { expect } from '../expect.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import type { Watcher } from '../watcher.js';

const CHUNKS = 200;
const INTERVAL_MS = 10;

/** A stream at one replica is one history at all of them: nothing missing, nothing twice. */
export const oneHistory: Step = async ({ a, b, c, story }) => {
  const script = `stream ${CHUNKS} ${INTERVAL_MS}`;
  story.begin(`One history: "${script}" is sent to A, B and C subscribe`);
  const start = performance.now();
  const sender = a.client.stream(script);
  const { taskId } = await sender.first('the task', () => true);
  const watchers = [sender, ...(await Promise.all([b.client.subscribe(taskId), c.client.subscribe(taskId)]))];

  const ends = await Promise.all(watchers.map((watcher) => watcher.end(TaskState.TASK_STATE_COMPLETED)));
  for (const [index, watcher] of watchers.entries()) {
    checkChunks(watcher);
    story.tell(watcher.who, watcher.summary(), (ends[index]?.at ?? start) - start);
  }
  const numbers = ends.map(({ n }) => n);
  expect(new Set(numbers).size === 1, `the streams ended at different events: ${numbers.join(', ')}`);
  story.tell('', `all three: ${CHUNKS} chunks in order, none missing, none twice, up to event ${numbers[0]}`);
  return { chunks: CHUNKS, events: numbers[0] ?? 0, subscribers: watchers.length, ms: Math.round(since(start)) };
};

/** The chunks of the snapshot and those of the events after it are the whole stream. */
function checkChunks({ who, seen }: Watcher): void {
  const indexes = seen.flatMap(({ chunks }) => chunks.map((chunk) => Number.parseInt(chunk, 10)));
  expect(indexes.length === CHUNKS, `${who}: saw ${indexes.length} chunks of ${CHUNKS}`);
  const wrong = indexes.findIndex((chunk, position) => chunk !== position + 1);
  expect(wrong === -1, `${who}: chunk ${indexes[wrong]} stands where ${wrong + 1} belongs`);
}

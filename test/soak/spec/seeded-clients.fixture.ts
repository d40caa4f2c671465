import type { Json } from '../recording.js';
import { type Run, type Seeded, removeFirst as remove, TASK, taskAt } from './green-run.fixture.js';

/** Breaks of what clients and push receivers were told. */
export const CLIENTS: readonly Seeded[] = [
  [
    'an answer that is in no database',
    'acknowledged',
    /get 4 .* task other was shown, and is not in the database/,
    ({ lines }) => answerOf(lines, 4, { ...taskAt(7), id: 'other' }),
  ],
  [
    'an answer that the log does not know',
    'acknowledged',
    /get 4 .* at no version what the log says/,
    ({ lines }) => answerOf(lines, 4, { ...taskAt(7), contextId: 'other' }),
  ],
  [
    'an answer from the past',
    'acknowledged',
    /version 2 was shown after version 7 had been/,
    ({ lines }) => answerOf(lines, 4, taskAt(2)),
  ],
  [
    'an accepted message that was lost',
    'acknowledged',
    /send 3 .* its message m9 is in no log/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'request' && it.call === 3);
      if (line?.kind === 'request') line.messageId = 'm9';
    },
  ],
  [
    'a message that was accepted twice',
    'acknowledged',
    /message m1 was accepted 2 times/,
    ({ dump }) => {
      const row = dump.tasks[0]!;
      dump.tasks.push({ ...row, taskNo: 2, taskId: 'task-2' });
      dump.events.push(...dump.events.map((event) => ({ ...event, taskNo: 2 })));
    },
  ],
  [
    'a refused message that is in the log',
    'acknowledged',
    /message m2 was refused, and is in the log/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'request' && it.call === 5);
      if (line?.kind === 'request') line.messageId = 'm2';
      remove(lines, (it) => 'call' in it && it.call === 3);
    },
  ],
  [
    'a task that is said not to be there',
    'acknowledged',
    /was said not to be there/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'end' && it.call === 5);
      if (line?.kind === 'end') line.error = 'TaskNotFoundError: Task not found';
    },
  ],
  [
    'a listing of a state that never was',
    'acknowledged',
    /list 6 .* as TASK_STATE_REJECTED, which it never was/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'answer' && it.call === 6);
      if (line?.kind === 'answer') line.listed = [{ taskId: TASK, state: 'TASK_STATE_REJECTED' }];
    },
  ],
  [
    'a receiver that was never told the end',
    'push',
    /it was never told event 7/,
    ({ lines }) => void lines.splice(lines.length - 1, 1),
  ],
  [
    'a receiver that was told out of order',
    'push',
    /it was told event 4 before event 3 was taken/,
    ({ lines }) => void lines.splice(lines.findIndex((line) => line.kind === 'push') + 3, 1),
  ],
  [
    'a receiver that did not take what it was told, and was not told again',
    'push',
    /it was told event 4 before event 3 was taken/,
    ({ lines }) => {
      const line = lines.filter((it) => it.kind === 'push')[3];
      if (line?.kind === 'push') line.status = 503;
    },
  ],
  [
    'a receiver that was given up',
    'push',
    /it was given up: gone/,
    ({ dump }) => void (dump.pushConfigs[0]!.failed = 'gone'),
  ],
];

function answerOf(lines: Run['lines'], call: number, task: Json): void {
  const line = lines.find((it) => it.kind === 'answer' && it.call === call);
  if (line?.kind === 'answer') line.task = task;
}

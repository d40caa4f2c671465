import { Role, TaskState } from '@a2a-js/sdk';
import { expect } from '../expect.js';
import { kill, secondAttempt } from '../run-again.js';
import type { Step } from '../stage.js';

const CHUNKS = 100;
const INTERVAL_MS = 20;
const KILLED_AT = 40;

/** A replica is killed in the middle of a stream; another one begins it anew, and nobody holds a chunk twice. */
export const killedStream: Step = async ({ a, b, c, log, story }) => {
  const script = `stream ${CHUNKS} ${INTERVAL_MS}`;
  story.begin(`A stream, cut: "${script}" is sent to A, B and C subscribe, A dies in the middle`);
  const sender = a.client.stream(script);
  const { taskId } = await sender.first('the task', () => true);
  const watchers = await Promise.all([b.client.subscribe(taskId), c.client.subscribe(taskId)]);
  await Promise.all(watchers.map((each) => each.first('the middle', () => each.chunks().length >= KILLED_AT)));

  const killedAt = await kill(a, story);
  const killToAgainMs = await secondAttempt([b, c], taskId, killedAt, story);
  for (const watcher of watchers) {
    const { at } = await watcher.end(TaskState.TASK_STATE_COMPLETED);
    const seen = watcher.seen.flatMap(({ chunks }) => chunks).length;
    const held = watcher.chunks();
    const wrong = held.findIndex((chunk, index) => Number.parseInt(chunk, 10) !== index + 1);
    expect(held.length === CHUNKS && wrong === -1, `${watcher.who} holds ${held.length} chunks: ${held.join('')}`);
    expect(seen >= CHUNKS + KILLED_AT, `${watcher.who} saw only ${seen} chunks: the first attempt was not cut`);
    story.tell(watcher.who, `COMPLETED: saw ${seen} chunks, holds ${held.length}, in order`, at - killedAt);
  }
  for (const { client } of [b, c]) {
    const { artifacts, history } = await client.task(taskId);
    const parts = artifacts.flatMap((artifact) => artifact.parts).length;
    const messages = history.filter(({ role }) => role === Role.ROLE_USER).length;
    expect(parts === CHUNKS, `GetTask at ${client.replica}: ${parts} chunks`);
    expect(messages === 1, `GetTask at ${client.replica}: the user's message stands ${messages} times in the history`);
  }
  story.tell('B, C', `GetTask: ${CHUNKS} chunks, the user's message once`);
  const terminalEvents = await log.terminalEvents(taskId);
  expect(terminalEvents === 1, `the log holds ${terminalEvents} terminal events`);
  await a.restart();
  return { chunks: CHUNKS, attempt: 2, killToAgainMs, terminalEvents };
};

import { randomUUID } from 'node:crypto';
import type { LimitStore } from './limit.js';

/** Events in one commit of a stream: more of them gain nothing any more. */
const BATCH = 100;

const REQUEST = JSON.stringify({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'turn' }] } });

/** The three commits of a turn. */
export async function limitTurn(store: LimitStore): Promise<void> {
  const [taskId, contextId] = [randomUUID(), randomUUID()];
  const task = await store.create(taskId, contextId, taskText(taskId, contextId, 'TASK_STATE_SUBMITTED'), REQUEST);
  await store.append(task, 'TASK_STATE_WORKING', [statusText(taskId, contextId, 'TASK_STATE_WORKING')]);
  const end = statusText(taskId, contextId, 'TASK_STATE_COMPLETED');
  await store.end(task, [end], taskText(taskId, contextId, 'TASK_STATE_COMPLETED'));
}

/** A stream of chunks, and the whole task at its end. */
export async function limitStream(store: LimitStore, chunks: number, bytes: number): Promise<void> {
  const [taskId, contextId] = [randomUUID(), randomUUID()];
  const task = await store.create(taskId, contextId, taskText(taskId, contextId, 'TASK_STATE_WORKING'), REQUEST);
  const text = 'x'.repeat(bytes);
  for (let sent = 0; sent < chunks; sent += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, chunks - sent) }, () => chunkText(taskId, contextId, text));
    await store.append(task, null, batch);
  }
  const parts = Array.from({ length: chunks }, () => ({ text, mediaType: 'text/plain' }));
  const whole = taskText(taskId, contextId, 'TASK_STATE_COMPLETED', [{ artifactId: 'a', parts }]);
  await store.end(task, [statusText(taskId, contextId, 'TASK_STATE_COMPLETED')], whole);
}

const statusOf = (state: string) => ({ state, timestamp: new Date().toISOString() });

const taskText = (id: string, contextId: string, state: string, artifacts: unknown[] = []): string =>
  JSON.stringify({ task: { id, contextId, status: statusOf(state), artifacts, history: [JSON.parse(REQUEST)] } });

const statusText = (taskId: string, contextId: string, state: string): string =>
  JSON.stringify({ statusUpdate: { taskId, contextId, status: statusOf(state) } });

const chunkText = (taskId: string, contextId: string, text: string): string =>
  JSON.stringify({
    artifactUpdate: {
      taskId,
      contextId,
      append: true,
      lastChunk: false,
      artifact: { artifactId: 'a', parts: [{ text, mediaType: 'text/plain' }] },
    },
  });

import { randomUUID } from 'node:crypto';
import type { Served } from './set-ups.fixture.js';
import { messageOf } from './wire.client.js';
import { kindOf, type WireStream } from './wire.stream.js';
import type { WireTask } from './wire.types.js';

/** Streamed messages and subscriptions. */
export function streamRequirements(served: Served): void {
  const send = (prefix: string): Promise<WireStream> =>
    served.client.stream('SendStreamingMessage', { message: messageOf(prefix) });
  const subscribe = (id: string): Promise<WireStream> => served.client.stream('SubscribeToTask', { id });

  /** Follows a task of which all is told so far. */
  async function followed(id: string): Promise<WireStream> {
    const stream = await subscribe(id);
    expect(kindOf(await stream.next())).toBe('task INPUT_REQUIRED');
    return stream;
  }

  describe('A streamed message', () => {
    test('CORE-STREAM-001 is told what happens while it happens', async () => {
      const stream = await send('test-resubscribe-message-id');
      const { task } = await stream.next();
      expect(task!.status.state).toBe('TASK_STATE_WORKING');
      await served.client.call('CancelTask', { id: task!.id }); // the agent would still be at work
      expect((await stream.rest()).map(kindOf).at(-1)).toBe('statusUpdate CANCELED');
    });

    test('CORE-STREAM-002 that is answered with a message has that and nothing else', async () => {
      expect((await (await send('tck-message-response')).rest()).map(kindOf)).toEqual(['message']);
    });

    test('CORE-STREAM-003 begins with its task, goes on with updates of it, and ends with the task', async () => {
      const [first, ...updates] = await (await send('tck-stream-003')).rest();
      expect(kindOf(first!)).toMatch(/^task /);
      expect(updates.map(kindOf).slice(-2)).toEqual(['artifactUpdate', 'statusUpdate COMPLETED']);
      for (const { statusUpdate, artifactUpdate } of updates) {
        expect(statusUpdate ?? artifactUpdate).toMatchObject({ taskId: first!.task!.id });
      }
      expect((await (await send('tck-stream-002')).rest()).map(kindOf).at(-1)).toBe('statusUpdate COMPLETED');
    });

    test('STREAM-ORDER-001 is told the events in the order in which the agent made them', async () => {
      const events = await (await send('tck-stream-artifact-chunked')).rest();
      const chunks = events.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
      expect(chunks.map(({ artifact }) => artifact.parts[0]?.text)).toEqual(['chunk-1 ', 'chunk-2']);
      expect(chunks.map(({ append = false, lastChunk = false }) => [append, lastChunk])).toEqual([
        [false, true],
        [true, true],
      ]);
      const { id } = events[0]!.task!;
      const { result } = await served.client.call<WireTask>('GetTask', { id });
      expect(result.artifacts?.map(({ parts }) => parts.map(({ text }) => text))).toEqual([['chunk-1 ', 'chunk-2']]);
    });
  });

  describe('A subscription', () => {
    test('STREAM-SUB-001, -002 begins with the task, and ends when the task ends', async () => {
      const { id: taskId } = await served.client.task('tck-input-required');
      const stream = await followed(taskId);
      await served.client.task('tck-artifact-text', { taskId });
      expect((await stream.rest()).map(kindOf).slice(-2)).toEqual(['artifactUpdate', 'statusUpdate COMPLETED']);
    });

    test('O15 STREAM-SUB-003 to a task that has ended is refused before there is a stream', async () => {
      const { id } = await served.client.task('tck-complete-task');
      expect((await served.client.call('SubscribeToTask', { id })).error?.reason).toBe('UNSUPPORTED_OPERATION');
    });

    test('STREAM-SUB-004 to a task that there is not is TaskNotFoundError', async () => {
      const { error } = await served.client.call('SubscribeToTask', { id: randomUUID() });
      expect(error?.reason).toBe('TASK_NOT_FOUND');
    });

    test('STREAM-ORDER-002, -003 is told the same as every other one, in the same order', async () => {
      const { id: taskId } = await served.client.task('tck-input-required');
      const streams = [await followed(taskId), await followed(taskId), await followed(taskId)];
      await served.client.task('tck-artifact-file', { taskId });
      const [one, ...others] = await Promise.all(streams.map((stream) => stream.rest()));
      expect(one!.map(kindOf)).toContain('artifactUpdate');
      for (const other of others) expect(other).toEqual(one);
    });

    test('STREAM-ORDER-004 goes on when another one is hung up on', async () => {
      const { id: taskId } = await served.client.task('tck-input-required');
      const [left, kept] = [await followed(taskId), await followed(taskId)];
      left.hangUp();
      await expect(left.rest()).rejects.toThrow();
      await served.client.task('tck-complete-task', { taskId });
      expect((await kept.rest()).map(kindOf).at(-1)).toBe('statusUpdate COMPLETED');
    });
  });
}

import { randomUUID } from 'node:crypto';
import type { WireTask } from './wire.types.js';
import type { Served } from './set-ups.fixture.js';

/** Sending messages, and the history that they leave. */
export function messageRequirements(served: Served): void {
  const history = async (id: string, historyLength: number): Promise<WireTask> =>
    (await served.client.call<WireTask>('GetTask', { id, historyLength })).result;

  /** A task of three messages: asks, asks again, is completed. */
  async function conversation(): Promise<WireTask> {
    const { id: taskId } = await served.client.task('tck-input-required', { parts: [{ text: 'first' }] });
    await served.client.task('tck-input-required', { taskId, parts: [{ text: 'second' }] });
    return served.client.task('tck-complete-task', { taskId, parts: [{ text: 'third' }] });
  }

  const textsOf = (task: WireTask): (string | undefined)[] =>
    (task.history ?? []).filter(({ role }) => role === 'ROLE_USER').map(({ parts }) => parts[0]?.text);

  describe('A message', () => {
    test('CORE-SEND-001 is answered with a task, or with a message', async () => {
      expect(Object.keys((await served.client.send('tck-complete-task')).result)).toEqual(['task']);
      expect(Object.keys((await served.client.send('tck-message-response')).result)).toEqual(['message']);
    });

    test('CORE-EXECUTION-MODE-001 is answered when its task has ended, or waits for the client', async () => {
      for (const params of [{}, { configuration: { returnImmediately: false } }]) {
        expect((await served.client.task('tck-complete-task', {}, params)).status.state).toBe('TASK_STATE_COMPLETED');
        expect((await served.client.task('tck-input-required', {}, params)).status.state).toBe(
          'TASK_STATE_INPUT_REQUIRED',
        );
      }
    });

    test('CORE-EXECUTION-MODE-002 is answered at once with returnImmediately, while the agent works', async () => {
      const configuration = { returnImmediately: true };
      const { id, status } = await served.client.task('test-resubscribe-message-id', {}, { configuration });
      expect(status.state).toBe('TASK_STATE_WORKING');
      await served.client.call('CancelTask', { id }); // nothing need wait for it
    });

    test('CORE-SEND-002 to a task that has ended is refused, and changes nothing', async () => {
      for (const prefix of ['tck-complete-task', 'tck-reject-task']) {
        const ended = await served.client.task(prefix);
        expect((await served.client.send('tck-complete-task', { taskId: ended.id })).error?.reason).toBe(
          'UNSUPPORTED_OPERATION',
        );
        expect((await served.client.call('GetTask', { id: ended.id })).result).toEqual(ended);
      }
    });

    test('CORE-MULTI-001, -001a, -003 gets ids of its own for its context and its task', async () => {
      const [one, other] = [
        await served.client.task('tck-complete-task'),
        await served.client.task('tck-complete-task'),
      ];
      const ids = [one.id, one.contextId, other.id, other.contextId];
      expect(ids).toEqual(ids.map(() => expect.stringMatching(/\S/) as string));
      expect(new Set(ids).size).toBe(4);
    });

    test('CORE-MULTI-002, -002a keeps the context that it names, and is refused with one that cannot be', async () => {
      const contextId = randomUUID();
      const tasks = [
        await served.client.task('tck-complete-task', { contextId }),
        await served.client.task('tck-input-required', { contextId }),
      ];
      expect(tasks.map((task) => task.contextId)).toEqual([contextId, contextId]);
      expect(tasks[0]!.id).not.toBe(tasks[1]!.id);
      expect((await served.client.send('tck-complete-task', { contextId: ' ' })).error?.reason).toBe('INVALID_PARAMS');
    });

    test('CORE-MULTI-004 to a task that there is not is TaskNotFoundError', async () => {
      expect((await served.client.send('tck-complete-task', { taskId: randomUUID() })).error?.reason).toBe(
        'TASK_NOT_FOUND',
      );
    });

    test('CORE-MULTI-005, -006 to a task is of its context, and refused with another', async () => {
      const { id: taskId, contextId } = await served.client.task('tck-input-required');
      const elsewhere = await served.client.send('tck-complete-task', { taskId, contextId: randomUUID() });
      expect(elsewhere.error?.reason).toBe('INVALID_PARAMS');
      const followed = await served.client.task('tck-complete-task', { taskId });
      expect([followed.id, followed.contextId]).toEqual([taskId, contextId]);
    });
  });

  describe('The history', () => {
    test('CORE-HIST-001, -002, -004 is given up to the length asked for, the newest messages of it', async () => {
      const { id, history: all = [] } = await conversation();
      expect(all).toHaveLength(4); // the agent's own message among them
      for (const length of [0, 1, 3, 10]) {
        const { history: given = [] } = await history(id, length);
        expect(given).toEqual(length === 0 ? [] : all.slice(-length));
      }
    });

    test('CORE-HIST-003 is left out of the answer to a message that wants none', async () => {
      const { id: taskId } = await served.client.task('tck-input-required');
      const configuration = { historyLength: 0 };
      const ended = await served.client.task('tck-complete-task', { taskId }, { configuration });
      expect(ended.history ?? []).toEqual([]);
    });

    test('CORE-HIST-005, -006 has the messages as they were sent, in their order', async () => {
      expect(textsOf(await conversation())).toEqual(['first', 'second', 'third']);
    });

    test('CORE-HIST-006 has every message, also those that came under one id', async () => {
      const messageId = `tck-input-required-${randomUUID()}`;
      const { id: taskId } = await served.client.task('', { messageId, parts: [{ text: 'first' }] });
      const asked = await served.client.task('', { messageId, taskId, parts: [{ text: 'second' }] });
      expect(textsOf(asked)).toEqual(['first', 'second']);
    });
  });
}

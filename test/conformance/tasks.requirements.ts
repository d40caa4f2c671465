import { randomUUID } from 'node:crypto';
import type { WireTask } from './wire.types.js';
import type { Served } from './set-ups.fixture.js';

interface Page {
  tasks: WireTask[];
  nextPageToken: string;
  pageSize: number;
  totalSize: number;
}

/** Getting, canceling and listing tasks. */
export function taskRequirements(served: Served): void {
  const working = (): Promise<WireTask> =>
    served.client.task('test-resubscribe-message-id', {}, { configuration: { returnImmediately: true } });

  describe('GetTask', () => {
    test('CORE-GET-001 answers with the task as it stands', async () => {
      const ended = await served.client.task('tck-artifact-text');
      expect((await served.client.call('GetTask', { id: ended.id })).result).toEqual(ended);
    });

    test('CORE-GET-002 of a task that there is not is TaskNotFoundError', async () => {
      expect((await served.client.call('GetTask', { id: randomUUID() })).error?.reason).toBe('TASK_NOT_FOUND');
    });
  });

  describe('CancelTask', () => {
    test('CORE-CANCEL-001 ends a task that waits, and one that runs, wherever it runs', async () => {
      for (const { id } of [await served.client.task('tck-input-required'), await working()]) {
        const { result } = await served.client.call<WireTask>('CancelTask', { id });
        expect([result.id, result.status.state]).toEqual([id, 'TASK_STATE_CANCELED']);
        expect((await served.client.call('GetTask', { id })).result).toEqual(result);
      }
    });

    test('CORE-CANCEL-002 of a task that has ended is TaskNotCancelableError', async () => {
      for (const prefix of ['tck-complete-task', 'tck-reject-task']) {
        const { id } = await served.client.task(prefix);
        expect((await served.client.call('CancelTask', { id })).error?.reason).toBe('TASK_NOT_CANCELABLE');
      }
    });

    test('CORE-CANCEL-003 of a task that there is not is TaskNotFoundError', async () => {
      expect((await served.client.call('CancelTask', { id: randomUUID() })).error?.reason).toBe('TASK_NOT_FOUND');
    });
  });

  describe('ListTasks', () => {
    const contextId = randomUUID();
    const list = async (params: object): Promise<Page> =>
      (await served.client.call<Page>('ListTasks', { contextId, ...params })).result;
    const created: WireTask[] = [];

    beforeAll(async () => {
      for (const prefix of ['tck-complete-task', 'tck-artifact-text', 'tck-input-required', 'tck-complete-task']) {
        created.unshift(await served.client.task(prefix, { contextId }));
      }
    });

    test('CORE-LIST-003 has the tasks from the newest status to the oldest', async () => {
      const { tasks } = await list({});
      const times = tasks.map(({ status }) => status.timestamp!);
      expect(times).toEqual([...times].sort().reverse());
      expect(tasks.slice(0, created.length).map(({ id }) => id)).toEqual(created.map(({ id }) => id));
    });

    test('CORE-LIST-002, -004 is read page by page, to the one whose token is empty', async () => {
      const all = (await list({ pageSize: 100 })).tasks.map(({ id }) => id);
      const paged: string[] = [];
      let pageToken = '';
      do {
        const page = await list({ pageSize: 3, ...(pageToken && { pageToken }) });
        expect(page).toMatchObject({ totalSize: all.length, nextPageToken: expect.any(String) as string });
        expect(page.tasks.length).toBeLessThanOrEqual(3);
        paged.push(...page.tasks.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(paged).toEqual(all);
      expect(await list({ pageSize: 100 })).toMatchObject({ nextPageToken: '' });
    });

    test('CORE-LIST-005 has artifacts only for those who ask for them', async () => {
      for (const params of [{}, { includeArtifacts: false }]) {
        for (const task of (await list(params)).tasks) expect(task).not.toHaveProperty('artifacts');
      }
      const { tasks } = await list({ includeArtifacts: true });
      expect(tasks.flatMap(({ artifacts = [] }) => artifacts)).not.toEqual([]);
    });

    test('CORE-HIST-002 has histories up to the length asked for', async () => {
      const lengthsFor = async (params: object): Promise<number[]> =>
        (await list({ status: 'TASK_STATE_COMPLETED', ...params })).tasks.map(({ history = [] }) => history.length);
      expect(Math.max(...(await lengthsFor({})))).toBeGreaterThan(1);
      expect(new Set(await lengthsFor({ historyLength: 1 }))).toEqual(new Set([1]));
    });

    test('CORE-LIST-001, AUTH-SCOPE-002 has the tasks of the caller alone', async () => {
      const alice = served.client.as('alice');
      const { id } = await alice.task('tck-complete-task', { contextId });
      expect((await list({})).tasks.map((task) => task.id)).not.toContain(id);
      const hers = (await alice.call<Page>('ListTasks', { contextId })).result;
      expect(hers.tasks.map((task) => task.id)).toContain(id);
      expect(hers.totalSize).toBe(hers.tasks.length);
    });
  });

  test("AUTH-SCOPE-001, -003, BIND-EQUIV-004 a task of somebody else's cannot be told from one that there is not", async () => {
    const { id } = await served.client.as('alice').task('tck-input-required');
    const bob = served.client.as('bob');
    const answerAbout = async (taskId: string) => [
      ...(await Promise.all(['GetTask', 'CancelTask'].map((name) => bob.call(name, { id: taskId })))),
      await bob.send('tck-complete-task', { taskId }),
      await bob.call('ListTaskPushNotificationConfigs', { taskId }),
    ];
    const unknown = randomUUID();
    const told = (await answerAbout(id)).map(({ status, error }) => [
      status,
      error?.code,
      error?.reason,
      error?.message,
    ]);
    const missing = (await answerAbout(unknown)).map(({ status, error }) => [
      status,
      error?.code,
      error?.reason,
      error?.message.replace(unknown, id),
    ]);
    expect(told).toEqual(missing);
    expect(told.map(([, , reason]) => reason)).toEqual(told.map(() => 'TASK_NOT_FOUND'));
  });
}

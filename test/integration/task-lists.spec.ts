import { randomUUID } from 'node:crypto';
import type { ListTasksRequest, Task } from '@a2a-js/sdk';
import { jest } from '@jest/globals';
import { LARGE_BYTES } from '../../libs/a2a-cluster/src/tasks/json-size.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { TaskScope } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { failed } from '../../libs/a2a-cluster/src/turns/status-events.js';
import { callContextOf, newScope, type Replica, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, inState, merge, message, status, taskOf, WORKING } from './events.fixture.js';
import { expireLeases } from './rows.fixture.js';

const MIB = 1024 * 1024;

describe('A list of tasks', () => {
  const cluster = useCluster();

  afterEach(() => jest.restoreAllMocks());

  const list = (replica: Replica, { tenant, owner }: TaskScope, params: Partial<ListTasksRequest> = {}) => {
    const request = { tenant, contextId: '', status: 0, pageToken: '', ...params } as ListTasksRequest;
    return replica.tasks.list(request, callContextOf({ tenant, owner, taskId: '' }));
  };

  const heads = (replica: Replica, scope: TaskScope) => list(replica, scope, { historyLength: 0 });

  /** How many bytes each statement of a replica brings, from now on. */
  function bytesRead(replica: Replica): number[] {
    const query = replica.database.query.bind(replica.database);
    const read: number[] = [];
    jest.spyOn(replica.database, 'query').mockImplementation(async (...args) => {
      const rows = await query(...args);
      read.push(JSON.stringify(rows).length);
      return rows;
    });
    return read;
  }

  const owned = (): TaskScope => newScope({ owner: randomUUID() });
  const another = ({ owner }: TaskScope): TaskScope => newScope({ owner });

  /** Its snapshot is as large as this from now on, and nothing else is changed. */
  const grow = (owner: string, bytes: number) =>
    cluster.db.query(
      `UPDATE a2a_tasks
          SET snapshot = left(snapshot, -1) || ', "artifacts": [{"artifactId": "a", "parts": [{"text": "'
                         || repeat('x', $2) || '"}]}]}'
        WHERE owner = $1`,
      [owner, bytes],
    );

  it('shows all of them where the time of a status is empty, as JSON-RPC may send it', async () => {
    const replica = await cluster.replica();
    const scope = owned();
    await replica.working(scope);
    expect((await list(replica, scope, { statusTimestampAfter: '' })).tasks).toHaveLength(1);
  });

  it('without history and artifacts reads no snapshot: 60 tasks of 10 MB are less than 100 kB in two statements', async () => {
    const a = await cluster.replica();
    const scope = owned();
    for (let at = 0; at < 60; at += 1) await a.working(another(scope));
    await grow(scope.owner, 10 * MIB);
    const read = bytesRead(a);
    const { tasks, nextPageToken, totalSize } = await list(a, scope, { historyLength: 0, pageSize: 100 });
    expect([tasks.length, nextPageToken, totalSize]).toEqual([60, '', 60]);
    expect(read).toHaveLength(2);
    expect(read.reduce((sum, bytes) => sum + bytes)).toBeLessThan(100_000);
  }, 120_000);

  describe('shows of each task what it is, without history and artifacts', () => {
    /** What the list shows is the task, and comes from its head. */
    async function expectHead(replica: Replica, scope: TaskScope): Promise<void> {
      const [row] = await cluster.db.query(
        'SELECT head IS NOT NULL AS kept, head_version = version AS current FROM a2a_tasks WHERE task_id = $1',
        [scope.taskId],
      );
      expect(row).toEqual({ kept: true, current: true });
      const found = await replica.tasks.find(scope);
      const [shown] = (await heads(replica, scope)).tasks;
      expect(shown).toEqual({ ...found!.task, history: [], artifacts: [] });
    }

    it('after every commit of a turn, whatever it changes', async () => {
      const a = await cluster.replica();
      const { scope, loop, turn } = await a.working(owned());
      await expectHead(a, scope);
      const chunk = artifact(scope, 'a1');
      const events = [
        status(scope, WORKING, 'a status'),
        chunk,
        {
          ...chunk,
          artifactUpdate: {
            ...(chunk as never as { artifactUpdate: object }).artifactUpdate,
            metadata: { by: 'chunk' },
          },
        },
        merge({ by: 'merge', more: [1] }),
        status(scope, COMPLETED, 'the end'),
      ] as Parameters<typeof loop.add>[0][];
      for (const event of events) {
        loop.add(event);
        await turn.flush();
        await expectHead(a, scope);
      }
    });

    it('after commits of several turns in one statement', async () => {
      const a = await cluster.replica();
      const turns = await Promise.all(Array.from({ length: 12 }, () => a.working(owned())));
      await Promise.all(
        turns.map(({ scope, loop, turn }) => {
          loop.add(status(scope, COMPLETED, 'together'));
          return turn.flush();
        }),
      );
      for (const { scope } of turns) await expectHead(a, scope);
    });

    it('after a follow-up, a forced end, a recovery, and a save through the SDK’s TaskStore', async () => {
      const a = await cluster.replica();
      const { scope } = await a.waiting(owned());
      await a.followUp(scope, message('answer'));
      await expectHead(a, scope);
      await a.tasks.forceEnd(scope, (task) =>
        failed({ taskId: task.id, contextId: task.contextId }, 'forced', { by: 1 }),
      );
      await expectHead(a, scope);

      const abandoned = await a.working(owned());
      await expireLeases(cluster.db, abandoned.taskNo);
      expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ failed: 1 });
      await expectHead(a, abandoned.scope);

      const saved = owned();
      const context = callContextOf(saved);
      await a.tasks.save(taskOf(saved), context);
      await expectHead(a, saved);
      await a.tasks.save(taskOf(saved, { metadata: { saved: true }, ...inState(COMPLETED) }), context);
      await expectHead(a, saved);
    });

    it('and reads the snapshot where a replica of before the column has written, or a writer says nothing of the head', async () => {
      const a = await cluster.replica();
      const { scope, taskNo, taskId } = await a.stored(owned());
      expect((await heads(a, scope)).tasks).toEqual([{ ...taskOf(scope), history: [], artifacts: [] }]);
      const before = taskOf(scope, { metadata: { new: true } });
      const { version } = (await a.tasks.find(scope))!;
      const options = {
        expectedVersion: version,
        commitId: randomUUID(),
        endsTurn: false,
        snapshot: encodeTask(before),
      };
      await a.tasks.append({ taskNo, taskId }, [merge({ new: true })], options);
      expect((await heads(a, scope)).tasks[0]?.metadata).toEqual({ new: true });

      const running = await a.working(owned());
      await expectHead(a, running.scope);
      const event = { statusUpdate: { taskId: running.scope.taskId, status: { state: 'TASK_STATE_COMPLETED' } } };
      await cluster.db.query(
        `WITH t AS (UPDATE a2a_tasks SET version = version + 1, state = 'TASK_STATE_COMPLETED' WHERE task_no = $1
                    RETURNING task_no, version)
         INSERT INTO a2a_task_events (task_no, version, event, commit_id)
         SELECT task_no, version, $2, gen_random_uuid() FROM t`,
        [running.taskNo, JSON.stringify(event)],
      );
      expect((await heads(a, running.scope)).tasks[0]?.status?.state).toBe(COMPLETED);
    });

    it('and reads the snapshot where the head is too long to be kept twice', async () => {
      const a = await cluster.replica();
      const { scope, loop, turn } = await a.working(owned());
      loop.add(merge({ long: 'x'.repeat(20_000) }));
      await turn.flush();
      expect(await cluster.db.query('SELECT head FROM a2a_tasks WHERE task_id = $1', [scope.taskId])).toEqual([
        { head: null },
      ]);
      const [shown] = (await heads(a, scope)).tasks;
      expect(shown?.metadata).toEqual({ long: 'x'.repeat(20_000) });
    });
  });

  /** All pages of a list, each with what was asked for and read. */
  async function pagesOf(replica: Replica, scope: TaskScope, params: Partial<ListTasksRequest>) {
    const pages: { tasks: Task[]; totalSize: number }[] = [];
    for (let pageToken = '', more = true; more; more = pageToken !== '') {
      const page = await list(replica, scope, { ...params, pageToken });
      pages.push(page);
      pageToken = page.nextPageToken;
    }
    return pages;
  }

  it('ends its pages at 2 MiB of what is read, and still shows every task once, in order, with their number', async () => {
    const a = await cluster.replica();
    const scope = owned();
    const ids: string[] = [];
    for (let at = 0; at < 10; at += 1) ids.unshift((await a.working(another(scope))).scope.taskId);
    await grow(scope.owner, 900_000);
    const read = bytesRead(a);
    const pages = await pagesOf(a, scope, { pageSize: 8 });
    expect(pages.map(({ tasks }) => tasks.length)).toEqual([3, 3, 3, 1]);
    expect(pages.map(({ totalSize }) => totalSize)).toEqual([10, 10, 10, 10]);
    expect(pages.flatMap(({ tasks }) => tasks.map(({ id }) => id))).toEqual(ids);
    expect(Math.max(...read)).toBeLessThan(3 * MIB);
  });

  it('is as long as its page size says where there is little to read', async () => {
    const a = await cluster.replica();
    const scope = owned();
    for (let at = 0; at < 5; at += 1) await a.working(another(scope));
    const read = bytesRead(a);
    expect((await pagesOf(a, scope, { pageSize: 2 })).map(({ tasks }) => tasks.length)).toEqual([2, 2, 1]);
    expect(read).toHaveLength(6);
  });

  it('has one task on a page of its own where that is larger than a page', async () => {
    const a = await cluster.replica();
    const scope = owned();
    for (let at = 0; at < 3; at += 1) await a.working(another(scope));
    await grow(scope.owner, 5 * MIB);
    const pages = await pagesOf(a, scope, { includeArtifacts: true });
    expect(pages.map(({ tasks }) => tasks.length)).toEqual([1, 1, 1]);
  });

  it('asks for room before it reads much, and reads nothing where there is none', async () => {
    const a = await cluster.replica();
    const scope = owned();
    for (let at = 0; at < 3; at += 1) await a.working(another(scope));
    await grow(scope.owner, 400_000);
    const read = bytesRead(a);
    const rooms: number[] = [];
    const params = { tenant: '', contextId: '', status: 0, pageToken: '' } as ListTasksRequest;
    const full = a.tasks.list(params, callContextOf(scope), (bytes) => {
      rooms.push(bytes);
      return Promise.reject(new Error('no room'));
    });
    await expect(full).rejects.toThrow('no room');
    expect(rooms).toEqual([expect.closeTo(1_200_000, -4)]);
    expect(Math.max(...read)).toBeLessThan(LARGE_BYTES);
    await a.tasks.list(params, callContextOf(scope), () => Promise.resolve(void rooms.push(0)));
    expect(rooms).toHaveLength(2);
  });

  it('lets the event loop have its turn between tasks of 5,000 messages each', async () => {
    const a = await cluster.replica();
    const scope = owned();
    const history = Array.from({ length: 5_000 }, (_, at) => message(`message ${at}`));
    for (let at = 0; at < 3; at += 1) await a.stored(another(scope), { history });
    const turns = jest.spyOn(globalThis, 'setImmediate');
    const { tasks } = await list(a, scope);
    const given = turns.mock.calls.length;
    expect(tasks.map((task) => task.history.length)).toEqual(Array(tasks.length).fill(5_000));
    expect(tasks.length).toBeGreaterThan(1);
    expect(given).toBeGreaterThanOrEqual(1);
  });
});

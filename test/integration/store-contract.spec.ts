import { randomUUID } from 'node:crypto';
import { TaskState } from '@a2a-js/sdk';
import { OrderedTaskStore } from '../../libs/a2a-cluster/src/tasks/ordered-task-store.js';
import { type AppendOptions, VersionedTaskStore } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { InMemoryLeaseStore, InMemoryTaskStore } from '../../libs/a2a-cluster/src/testing/index.js';
import { canceled } from '../../libs/a2a-cluster/src/turns/status-events.js';
import {
  begin,
  callOf,
  lease,
  message,
  newScope,
  PAIRS,
  status,
  type StorePair,
  StorePairs,
  taskOf,
} from './store-contract.fixture.js';

const { TASK_STATE_WORKING: WORKING, TASK_STATE_COMPLETED: COMPLETED } = TaskState;
const { TASK_STATE_INPUT_REQUIRED: INPUT_REQUIRED, TASK_STATE_CANCELED: CANCELED } = TaskState;

const pairs = new StorePairs();

/** Options of a commit. */
const at = (expectedVersion: number, more: Partial<AppendOptions> = {}): AppendOptions => ({
  expectedVersion,
  commitId: randomUUID(),
  endsTurn: false,
  ...more,
});

describe.each(PAIRS)('The contract of stores: %s', (pair) => {
  let stores: StorePair;
  beforeEach(() => {
    stores = pairs.make(pair);
  });

  const claimOne = async (scope: ReturnType<typeof newScope>, holder = 'B') =>
    (await stores.leases.claim({ holder, ttlMs: 60_000, limit: 10, scope }))[0];

  it('I5 a log is dense, and folds into what find gives', async () => {
    const { tasks } = stores;
    const scope = newScope();
    const made = await begin(tasks, scope, WORKING);
    const task = { ...made, taskId: scope.taskId };
    await tasks.append(task, [status(scope, WORKING), status(scope, INPUT_REQUIRED)], at(1));
    const events = await tasks.readEvents(made.taskNo, 0, 10);
    expect(events.map(({ version }) => version)).toEqual([1, 2, 3]);
    expect(await tasks.find(scope)).toMatchObject({ version: 3, stateVersion: 3, waiting: true, scope });
    expect(await tasks.findByNo(made.taskNo)).toEqual(await tasks.find(scope));
    expect(await tasks.versions([made.taskNo, 999_999])).toEqual(new Map([[made.taskNo, 3]]));
    expect(await tasks.find({ ...scope, owner: 'bob' })).toBeUndefined();
  });

  it('O1 O2 a stale version and a taken id are refused, a repeated commit finds itself', async () => {
    const { tasks } = stores;
    const scope = newScope();
    const task = { ...(await begin(tasks, scope, WORKING)), taskId: scope.taskId };
    const commit = at(1);
    expect(await tasks.append(task, [status(scope, WORKING)], commit)).toBe(2);
    expect(await tasks.append(task, [status(scope, WORKING)], commit)).toBe(2);
    await expect(tasks.append(task, [status(scope, WORKING)], at(1))).rejects.toMatchObject({ expectedVersion: 1 });
    await expect(begin(tasks, scope, WORKING)).rejects.toMatchObject({ name: 'ConcurrentTaskModificationError' });
    expect(await tasks.find(scope)).toMatchObject({ version: 2 });
  });

  it('I2 I3 I4 the lease goes with the ending event; afterwards nothing is accepted', async () => {
    const { tasks, leases } = stores;
    const scope = newScope();
    const { generation, taskNo } = await begin(tasks, scope, WORKING, lease('A'));
    const task = { taskNo, taskId: scope.taskId };
    expect(await leases.inspect([generation!])).toEqual({ cancelRequested: [], lost: [] });
    await tasks.append(task, [status(scope, COMPLETED)], at(1, { generation: generation!, endsTurn: true }));
    expect(await leases.inspect([generation!])).toEqual({ cancelRequested: [], lost: [generation] });
    for (const fence of [{ generation: generation! }, {}]) {
      await expect(tasks.append(task, [status(scope, WORKING)], at(2, fence))).rejects.toMatchObject({
        code: 'A2A_LEASE_LOST',
      });
    }
    expect(await tasks.find(scope)).toMatchObject({ version: 2, task: { status: { state: COMPLETED } } });
  });

  it('O26 O34 a renewal brings nothing back, and an old generation releases nothing', async () => {
    const { tasks, leases, expire } = stores;
    const scope = newScope();
    const { generation } = await begin(tasks, scope, WORKING, lease('A'));
    expect(await leases.renew('A', [generation!], 60_000)).toEqual([{ generation, cancelRequested: false }]);
    expect(await claimOne(scope)).toBeUndefined();
    await expire(scope);
    const claimed = await claimOne(scope);
    expect(claimed).toMatchObject({ scope, lastHolder: 'A', attempt: 2, kind: 'message', admittedVersion: 0 });
    expect(claimed!.generation).toBeGreaterThan(generation!);
    expect(await leases.renew('A', [generation!, claimed!.generation], 60_000)).toEqual([]);
    expect(await leases.release(generation!)).toBe(false);
    expect(await leases.release(claimed!.generation)).toBe(true);
    expect(await leases.renew('B', [claimed!.generation], 60_000)).toEqual([]);
    expect(await leases.inspect([claimed!.generation])).toMatchObject({ lost: [claimed!.generation] });
  });

  it('O20 O56 a holder whose lease was claimed writes nothing any more', async () => {
    const { tasks, expire } = stores;
    const scope = newScope();
    const { generation, taskNo } = await begin(tasks, scope, WORKING, lease('A'));
    await expire(scope);
    const claimed = await claimOne(scope);
    const task = { taskNo, taskId: scope.taskId };
    const late = tasks.append(task, [status(scope, WORKING)], at(1, { generation: generation! }));
    await expect(late).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    const ending = at(1, { generation: claimed!.generation, endsTurn: true });
    expect(await tasks.append(task, [status(scope, COMPLETED)], ending)).toBe(2);
  });

  it('O28 of many claimers exactly one gets a lease', async () => {
    const { tasks, expire } = stores;
    const scope = newScope();
    await begin(tasks, scope, WORKING, lease('A'));
    await expire(scope);
    const claims = await Promise.all(['B', 'C', 'D', 'E'].map((holder) => claimOne(scope, holder)));
    expect(claims.filter((claimed) => claimed !== undefined)).toHaveLength(1);
  });

  it('O16 two messages for one waiting task at once: one is admitted, the other leaves no trace', async () => {
    const { tasks } = stores;
    const scope = newScope();
    await begin(tasks, scope, INPUT_REQUIRED);
    const [one, two] = [message('one'), message('two')];
    const admissions = await Promise.all([tasks.admit(scope, one, lease('A')), tasks.admit(scope, two, lease('B'))]);
    expect(admissions.map(({ outcome }) => outcome).sort()).toEqual(['admitted', 'busy']);
    const accepted = admissions[0].outcome === 'admitted' ? one : two;
    const { task, version, waiting } = (await tasks.find(scope))!;
    expect(task.history.map(({ messageId }) => messageId)).toEqual([accepted.messageId]);
    expect({ version, waiting }).toEqual({ version: 2, waiting: false });
  });

  it('I1 a follow-up is decided by task and lease', async () => {
    const { tasks, expire } = stores;
    const outcome = async (scope: ReturnType<typeof newScope>, more = {}) =>
      (await tasks.admit(scope, message('x', more), lease('B'))).outcome;
    const [waiting, running, ended] = [newScope(), newScope(), newScope()];
    await begin(tasks, waiting, INPUT_REQUIRED);
    await begin(tasks, running, WORKING, lease('A'));
    await begin(tasks, ended, COMPLETED);
    expect(await outcome(newScope())).toBe('unknown');
    expect(await outcome(ended)).toBe('terminal');
    expect(await outcome(running)).toBe('busy');
    expect(await outcome(waiting, { contextId: 'other' })).toBe('otherContext');
    expect(await outcome(waiting)).toBe('admitted');
    expect(await outcome(waiting)).toBe('busy');
    await expire(running);
    expect(await outcome(running)).toBe('abandoned');
  });

  it('O51 a cancel flags who runs the task, takes the lease of one that waits, and can be forced', async () => {
    const { tasks, leases } = stores;
    const [running, waiting] = [newScope(), newScope()];
    const { generation } = await begin(tasks, running, WORKING, lease('A'));
    await begin(tasks, waiting, INPUT_REQUIRED);
    expect(await tasks.requestCancel(running, lease('B', 'cancel'))).toMatchObject({
      outcome: 'requested',
      version: 1,
    });
    expect(await leases.inspect([generation!])).toEqual({ cancelRequested: [generation], lost: [] });
    const admitted = await tasks.requestCancel(waiting, lease('B', 'cancel'));
    expect(admitted).toMatchObject({ outcome: 'admitted', generation: expect.any(Number) as number });
    for (const scope of [running, waiting]) {
      const end = () => canceled({ taskId: scope.taskId, contextId: 'c' });
      expect((await tasks.forceEnd(scope, end)).task.status?.state).toBe(CANCELED);
      expect((await tasks.requestCancel(scope, lease('C', 'cancel'))).outcome).toBe('terminal');
    }
    expect((await leases.inspect([generation!])).lost).toEqual([generation]);
    expect((await tasks.requestCancel(newScope(), lease('C', 'cancel'))).outcome).toBe('unknown');
  });

  it('a message that was accepted is known, within its window', async () => {
    const { tasks } = stores;
    const receipt = { messageId: randomUUID(), fingerprint: 'f', windowMs: 60_000 };
    const scope = newScope();
    const task = taskOf(scope, INPUT_REQUIRED);
    const create = (one: typeof scope) =>
      tasks.create(one, [{ kind: 'task', task }], { contextId: 'c', commitId: randomUUID(), snapshot: '{}', receipt });
    const { taskNo } = await create(scope);
    expect(await tasks.findRepeated(newScope(), receipt)).toBe(taskNo);
    expect(await tasks.findRepeated(newScope(), { ...receipt, fingerprint: 'other' })).toBeUndefined();
    expect(await tasks.findRepeated(newScope('bob'), receipt)).toBeUndefined();
    await expect(create(newScope())).rejects.toMatchObject({ name: 'MessageRepeatedError', taskNo });
    const followUp = { messageId: randomUUID(), fingerprint: 'g', windowMs: 60_000 };
    const admit = () => tasks.admit(scope, message('x'), lease('A'), { receipt: followUp });
    expect(await admit()).toMatchObject({ outcome: 'admitted' });
    expect(await admit()).toMatchObject({ outcome: 'repeated', taskNo });
  });

  it('O6 the SDK TaskStore: a save is locked by what the same call has loaded', async () => {
    const { tasks } = stores;
    const scope = newScope();
    const [one, other] = [callOf(scope), callOf(scope)];
    await tasks.save(taskOf(scope), one);
    const loaded = (await tasks.load(scope.taskId, other))!;
    await tasks.save({ ...loaded, metadata: { by: 'other' } }, other);
    await expect(tasks.save({ ...taskOf(scope), metadata: { by: 'one' } }, one)).rejects.toMatchObject({
      name: 'ConcurrentTaskModificationError',
    });
    expect((await tasks.load(scope.taskId, one))?.metadata).toEqual({ by: 'other' });
  });

  it('ListTasks pages through all of a caller, newest status first', async () => {
    const { tasks } = stores;
    const owner = randomUUID();
    const scopes = Array.from({ length: 5 }, () => newScope(owner));
    for (const scope of scopes) await begin(tasks, scope, WORKING);
    const params = { tenant: '', contextId: '', status: 0, pageSize: 2, pageToken: '' };
    const seen: string[] = [];
    for (let pageToken = '', more = true; more; more = pageToken !== '') {
      const page = await tasks.list({ ...params, pageToken } as never, callOf(scopes[0]!));
      expect(page.totalSize).toBe(5);
      seen.push(...page.tasks.map(({ id }) => id));
      pageToken = page.nextPageToken;
    }
    expect(seen).toEqual(scopes.map(({ taskId }) => taskId).reverse());
  });

  it('a task that waits too long is found, one that moved on is left alone', async () => {
    const { tasks } = stores;
    const scope = newScope();
    const { taskNo } = await begin(tasks, scope, INPUT_REQUIRED);
    const [late] = (await tasks.overdue(0, 100, taskNo - 1)).filter((one) => one.taskNo === taskNo);
    expect(late).toMatchObject({ scope, stateVersion: 1 });
    await tasks.admit(scope, message('in time'), lease('A'));
    const end = () => canceled({ taskId: scope.taskId, contextId: 'c' });
    const kept = await tasks.forceEnd(scope, end, { idleSince: 1 });
    expect(kept.task.status?.state).toBe(INPUT_REQUIRED);
    expect(await tasks.overdue(60_000, 100, 0)).toEqual([]);
  });

  it('B.18 a running task without a lease is found once it is old enough, and nothing else is', async () => {
    const { tasks } = stores;
    const [bare, other, held, waiting, ended] = Array.from({ length: 5 }, () => newScope());
    await begin(tasks, bare!, WORKING);
    await begin(tasks, other!, WORKING);
    await begin(tasks, held!, WORKING, lease('A'));
    await begin(tasks, waiting!, INPUT_REQUIRED);
    await begin(tasks, ended!, COMPLETED);
    const ours = new Set([bare, other, held, waiting, ended].map((scope) => scope!.taskId));
    const found = async (unchangedForMs: number, limit = 1_000): Promise<string[]> =>
      (await tasks.withoutLease(unchangedForMs, limit)).map(({ taskId }) => taskId).filter((id) => ours.has(id));
    expect(await found(0)).toEqual([bare!.taskId, other!.taskId]);
    expect(await tasks.withoutLease(0, 1)).toHaveLength(1);
    expect(await found(60_000)).toEqual([]);
  });
});

it('B.18 a task whose turn ends while its lease is looked for is not taken for one without', async () => {
  const inMemory = new InMemoryTaskStore();
  const leases = new InMemoryLeaseStore();
  const tasks = new OrderedTaskStore(inMemory, leases);
  const scope = newScope();
  const { taskNo, generation } = await begin(tasks, scope, WORKING, lease('A'));
  const find = leases.find.bind(leases);
  leases.find = async (asked) => {
    const end = at(1, { generation: generation!, endsTurn: true });
    leases.find = find;
    await tasks.append({ taskNo, taskId: scope.taskId }, [status(scope, COMPLETED)], end);
    return find(asked);
  };
  expect(await tasks.withoutLease(0, 10)).toEqual([]);
  await leases.close();
});

it('B.18 a store of one’s own need not know how to find them', async () => {
  const own = Object.create(VersionedTaskStore.prototype) as VersionedTaskStore;
  expect(await own.withoutLease(0, 10)).toEqual([]);
});

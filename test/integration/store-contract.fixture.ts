import { randomUUID } from 'node:crypto';
import { type Message, Role, type Task, TaskState } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import type { DataSource } from 'typeorm';
import { ClusterDatabase } from '../../libs/a2a-cluster/src/postgres/connection/cluster-database.js';
import type { EffectStore } from '../../libs/a2a-cluster/src/effects/effect-store.js';
import { OrderedEffectStore } from '../../libs/a2a-cluster/src/effects/ordered-effect-store.js';
import { TypeOrmEffectStore } from '../../libs/a2a-cluster/src/postgres/effects/typeorm-effect-store.js';
import type { LeaseRequest, LeaseStore } from '../../libs/a2a-cluster/src/leases/lease-store.js';
import { TypeOrmLeaseStore } from '../../libs/a2a-cluster/src/postgres/leases/typeorm-lease-store.js';
import { OrderedTaskStore } from '../../libs/a2a-cluster/src/tasks/ordered-task-store.js';
import type { TaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { TaskScope } from '../../libs/a2a-cluster/src/tasks/task-scope.js';
import type { VersionedTaskStore } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { TypeOrmTaskStore } from '../../libs/a2a-cluster/src/postgres/tasks/typeorm-task-store.js';
import {
  InMemoryEffectStore,
  InMemoryLeaseStore,
  InMemoryTaskStore,
} from '../../libs/a2a-cluster/src/testing/index.js';
import type { StaticOptions } from '../../libs/a2a-cluster/src/options/static.options.js';
import { createTestDatabase, type TestDatabase } from '../helpers/database.js';
import { optionsWith } from '../helpers/options.js';
import { accessTo } from './faults.fixture.js';

const TABLES = {
  tasks: 'a2a_tasks',
  events: 'a2a_task_events',
  leases: 'a2a_task_leases',
  replicas: 'a2a_replicas',
  pushConfigs: 'a2a_push_configs',
  receipts: 'a2a_message_receipts',
  effects: 'a2a_task_effects',
};

/** Two stores that belong together, as the library uses them, and what a test needs beside them. */
export interface StorePair {
  tasks: VersionedTaskStore;
  leases: LeaseStore;
  effects: EffectStore;
  /** Lets the lease of a task run out now. */
  expire: (scope: TaskScope) => Promise<void>;
}

/** The pair that checks its leases within the statement that writes; with the others order does it. */
export const SHARING = 'TypeORM tasks and leases';

/** The pairs that have to keep one contract. */
export const PAIRS = [SHARING, 'in-memory tasks and leases', 'TypeORM tasks, in-memory leases'] as const;

/** Makes store pairs, on a database where they need one. Made at the top of a test file, it registers its hooks. */
export class StorePairs {
  private database: TestDatabase | undefined;
  private dataSource: DataSource | undefined;
  private readonly made: { close(): Promise<void> }[] = [];

  constructor() {
    beforeAll(async () => {
      this.database = await createTestDatabase();
      this.dataSource = await this.database.dataSource();
    });
    afterEach(async () => {
      await Promise.all(this.made.splice(0).map((one) => one.close()));
    });
    afterAll(async () => {
      await this.dataSource?.destroy();
      await this.database?.drop();
    });
  }

  make(pair: (typeof PAIRS)[number]): StorePair {
    const database = this.closed(new ClusterDatabase(this.dataSource!, { maxTimeoutMs: 5_000 }));
    const access = accessTo(database);
    const parts = { agentId: 'default' } as StaticOptions;
    const stored = new TypeOrmTaskStore(access, parts, optionsWith());
    if (pair === SHARING) {
      const leases = this.closed(new TypeOrmLeaseStore(access, parts));
      const effects = new TypeOrmEffectStore(database, TABLES, true);
      return { tasks: stored, leases, effects, expire: (scope) => this.expireRow(scope) };
    }
    const leases = this.closed(new InMemoryLeaseStore());
    const inMemory = pair === 'in-memory tasks and leases';
    const tasks = inMemory ? new InMemoryTaskStore() : stored;
    const ledger = inMemory ? new InMemoryEffectStore() : new TypeOrmEffectStore(database, TABLES, false);
    const effects = new OrderedEffectStore(ledger, leases);
    const expire = (scope: TaskScope): Promise<void> => Promise.resolve(leases.expire(scope));
    return { tasks: new OrderedTaskStore(tasks, leases), leases, effects, expire };
  }

  private closed<T extends { close(): Promise<void> }>(one: T): T {
    this.made.push(one);
    return one;
  }

  private async expireRow({ taskId }: TaskScope): Promise<void> {
    await this.database!.query(
      `WITH l AS (
         UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'
          WHERE task_no = (SELECT task_no FROM a2a_tasks WHERE task_id = $1)
         RETURNING holder
       )
       UPDATE a2a_replicas AS r SET expires_at = clock_timestamp() - interval '1 second' FROM l WHERE r.holder = l.holder`,
      [taskId],
    );
  }
}

export const newScope = (owner = 'ann'): TaskScope => ({ tenant: '', owner, taskId: randomUUID() });

export const callOf = ({ owner }: TaskScope): ServerCallContext =>
  new ServerCallContext({ user: { isAuthenticated: true, userName: owner } });

export function lease(holder: string, kind: LeaseRequest['kind'] = 'message'): LeaseRequest {
  return { kind, turnId: randomUUID(), holder, ttlMs: 60_000, request: '{}', context: '{}' };
}

export function message(text: string, more: Partial<Message> = {}): Message {
  return {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
    ...more,
  };
}

export function taskOf({ taskId }: TaskScope, state = TaskState.TASK_STATE_WORKING): Task {
  const status = { state, message: undefined, timestamp: undefined };
  return { id: taskId, contextId: 'c', status, artifacts: [], history: [], metadata: undefined };
}

export function status({ taskId }: TaskScope, state: TaskState): TaskEvent {
  const update = { taskId, contextId: 'c', metadata: undefined };
  return {
    kind: 'statusUpdate',
    statusUpdate: { ...update, status: { state, message: undefined, timestamp: undefined } },
  };
}

/** Stores a new task in this state, under a lease if one is given. */
export async function begin(tasks: VersionedTaskStore, scope: TaskScope, state: TaskState, held?: LeaseRequest) {
  const task = taskOf(scope, state);
  const options = { contextId: 'c', commitId: randomUUID(), snapshot: encodeTask(task), ...(held && { lease: held }) };
  return tasks.create(scope, [{ kind: 'task', task }], options);
}

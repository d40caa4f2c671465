import { randomUUID } from 'node:crypto';
import { type Message, SendMessageRequest, type Task } from '@a2a-js/sdk';
import { type AgentExecutor, ServerCallContext } from '@a2a-js/sdk/server';
import { Logger, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { A2AClusterModule } from 'nestjs-a2a-cluster';
import { EffectStore, LeaseStore, TaskEventStream, VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { DataSource } from 'typeorm';
import { TurnTransactions } from '../../libs/a2a-cluster/src/effects/turn-transactions.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import { Heartbeat } from '../../libs/a2a-cluster/src/leases/heartbeat.js';
import type { ClaimedLease, LeaseRequest } from '../../libs/a2a-cluster/src/leases/lease-store.js';
import type { LeaseTimes } from '../../libs/a2a-cluster/src/options/lease.options.js';
import {
  ClusterDatabase,
  type DatabaseLimits,
} from '../../libs/a2a-cluster/src/postgres/connection/cluster-database.js';
import { DatabaseAccess } from '../../libs/a2a-cluster/src/postgres/connection/database-access.js';
import type { TypeOrmLeaseStore } from '../../libs/a2a-cluster/src/postgres/leases/typeorm-lease-store.js';
import { tablesOf } from '../../libs/a2a-cluster/src/postgres/schema/table-names.js';
import type { TypeOrmTaskEventStream } from '../../libs/a2a-cluster/src/postgres/streams/typeorm-task-event-stream.js';
import type { TypeOrmTaskStore } from '../../libs/a2a-cluster/src/postgres/tasks/typeorm-task-store.js';
import { type Claim } from '../../libs/a2a-cluster/src/recovery/abandoned-leases.js';
import { AbandonedTaskSweeper } from '../../libs/a2a-cluster/src/recovery/abandoned-task.sweeper.js';
import { AbandonedTurnRecovery } from '../../libs/a2a-cluster/src/recovery/abandoned-turn.recovery.js';
import { Poller } from '../../libs/a2a-cluster/src/streams/poller.js';
import { ArtifactRestart } from '../../libs/a2a-cluster/src/tasks/artifact-restart.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { TaskScope } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { CommitLoop } from '../../libs/a2a-cluster/src/turns/commit-loop.js';
import { TurnAdmission } from '../../libs/a2a-cluster/src/turns/turn-admission.js';
import type { TurnExecution } from '../../libs/a2a-cluster/src/turns/turn-execution.js';
import { TurnFactory } from '../../libs/a2a-cluster/src/turns/turn-factory.js';
import { createTestDatabase, type TestDatabase, type TestDataSourceOptions } from '../helpers/database.js';
import { REQUIRED_OPTIONS } from '../helpers/options.js';
import { expectNothingLeft, watchTimers } from '../helpers/resource-check.js';
import { INPUT_REQUIRED, message, status, taskEvent, taskOf } from './events.fixture.js';
import { accessTo, type DatabaseFactory, resumeAll } from './faults.fixture.js';
import { releaseHolds } from './rows.fixture.js';

/** Long enough that nothing expires or gives up by itself: leases expire because a test says so, in SQL. */
const TIMES: LeaseTimes = { heartbeatIntervalMs: 20_000, ttlMs: 60_000 };
const TIMEOUT_MS = 15_000;

export interface ReplicaOptions {
  agent?: string;
  times?: LeaseTimes;
  batchSize?: number;
  /** LISTEN and NOTIFY. Default: off, wake-ups are the test's. */
  notify?: boolean;
  /** Default: a silent turn stays silent. */
  firstEventMs?: number;
  /** Whether turns hold leases. Default true. */
  leased?: boolean;
  /** Bound of a transaction's row locks in ms. Default: that of any call. */
  maxTransactionMs?: number;
  database?: DatabaseFactory;
}

/** The parts of one replica, with a holder id of its own, and without a single timer running. */
export type Replica = Awaited<ReturnType<typeof createCluster>>;

/** Turns are started by the tests, up to the point where an executor would be called. */
class NeverExecuted implements AgentExecutor {
  execute(): Promise<void> {
    return Promise.reject(new Error('No test calls the executor'));
  }

  cancelTask(): Promise<void> {
    return Promise.reject(new Error('No test calls the executor'));
  }
}

/** What an app with TypeOrmModule gives to the library. */
function typeOrmModuleOf(dataSource: DataSource) {
  @Module({ providers: [{ provide: DataSource, useValue: dataSource }], exports: [DataSource] })
  class TypeOrmModuleOfATest {}
  return TypeOrmModuleOfATest;
}

/** One replica, as the library's module puts it together. The app is never initialized: no loop runs. */
export async function createCluster(dataSource: DataSource, options: ReplicaOptions = {}) {
  const { agent = 'default', times = TIMES, batchSize = 100, notify = false, leased = true } = options;
  const makeDatabase: DatabaseFactory = options.database ?? ((...args) => new ClusterDatabase(...args));
  const database = makeDatabase(dataSource, {
    maxTimeoutMs: TIMEOUT_MS,
    maxTransactionMs: options.maxTransactionMs,
    // As many as a test may hold up at the same time.
    maxConnections: 40,
  });
  const cluster = A2AClusterModule.forRoot({
    ...REQUIRED_OPTIONS,
    executor: NeverExecuted,
    imports: [typeOrmModuleOf(dataSource), ScheduleModule.forRoot()],
    agentId: agent,
    leases: leased && times,
    ...(leased && { sweeper: { batchSize, backoffMs: 0 } }),
    turns: { firstEventMs: options.firstEventMs ?? Infinity },
    streams: { pollIntervalMs: 20, notify, retentionMs: Infinity },
  });
  const app = await Test.createTestingModule({ imports: [cluster] })
    .overrideProvider(DatabaseAccess)
    .useValue(accessTo(database))
    .compile();
  const tasks = app.get<TypeOrmTaskStore>(VersionedTaskStore);
  const heartbeat = app.get(Heartbeat, { strict: false });
  const admission = app.get(TurnAdmission, { strict: false });
  const turns = app.get(TurnFactory, { strict: false });
  const { holderId } = heartbeat;
  const parts = {
    database,
    tables: tablesOf(dataSource),
    holderId,
    leases: app.get<TypeOrmLeaseStore>(LeaseStore),
    tasks,
    poller: app.get(Poller, { strict: false }),
    stream: app.get<TypeOrmTaskEventStream>(TaskEventStream),
    heartbeat,
    recovery: app.get(AbandonedTurnRecovery, { strict: false }),
    sweeper: app.get(AbandonedTaskSweeper),
    admission,
    effects: app.get(EffectStore),
    transactions: app.get(TurnTransactions, { strict: false }),
  };

  /** A turn as the runner starts one, up to the point where its executor would be called. */
  const startTurn = async (scope: TaskScope, said: Message, followUp = false): Promise<TurnExecution> => {
    const { taskId, tenant } = scope;
    const request = { tenant, message: said, configuration: undefined, metadata: undefined };
    const callContext = callContextOf(scope);
    const turn = turns.create({
      kind: 'message',
      scope,
      contextId: `context of ${taskId}`,
      callContext,
      request,
      receipt: undefined,
      followUp,
    });
    await admission.admit(turn);
    return turn;
  };

  /** The next attempt of a turn whose lease was claimed here, up to the point where its executor would be called. */
  const resumeTurn = async ({ claimed, held, sentAt }: Claim): Promise<TurnExecution> => {
    const { generation, turnId, attempt } = claimed;
    const scope = claimed.scope!;
    const stored = (await tasks.find(scope))!;
    const request = SendMessageRequest.fromJSON(JSON.parse(claimed.request!));
    const turn = turns.create({
      kind: 'message',
      scope,
      contextId: stored.task.contextId,
      callContext: callContextOf(scope),
      request,
      receipt: undefined,
      followUp: true,
      again: { turnId, attempt, restart: new ArtifactRestart(new Map()) },
    });
    turn.leaseTransferred(held);
    turn.admittedTo({ stored, generation, sentAt, held });
    return turn;
  };

  /** What a turn that is to be admitted asks for. */
  const leaseRequest = (kind: LeaseRequest['kind'] = 'message'): LeaseRequest => ({
    kind,
    turnId: randomUUID(),
    holder: holderId,
    ttlMs: times.ttlMs,
    request: null,
    context: '{}',
  });

  /** A turn whose first commit, a WORKING task, is stored. */
  const working = async (scope: TaskScope = newScope()): Promise<RunningTurn> => {
    const turn = await startTurn(scope, message());
    turn.loop!.add(taskEvent(scope));
    await turn.flush();
    return runningTurn(scope, turn);
  };

  return {
    ...parts,
    startTurn,
    resumeTurn,
    /** A follow-up as far as the store sees it. */
    admit: (scope: TaskScope, said: Message = message(), lease: LeaseRequest = leaseRequest()) =>
      tasks.admit(scope, said, lease, { turnId: lease.turnId }),
    followUp: (scope: TaskScope, said: Message = message()) => startTurn(scope, said, true),
    working,
    /** A task that waits for its client: its turn has asked something and is over. */
    async waiting(scope: TaskScope = newScope()) {
      const turn = await working(scope);
      turn.loop.add(status(scope, INPUT_REQUIRED));
      await turn.turn.flush();
      return turn;
    },
    /** A task that nobody runs, as foreign code would store it. */
    async stored(scope: TaskScope = newScope(), task: Partial<Task> = {}) {
      const first = taskOf(scope, task);
      const made = await tasks.create(scope, [{ kind: 'task', task: first }], {
        contextId: first.contextId,
        commitId: randomUUID(),
        snapshot: encodeTask(first),
      });
      return { scope, taskNo: made.taskNo, taskId: scope.taskId };
    },
    leaseRequest,
    /** A lease that was claimed here, as the recovery takes it. */
    claimOf: (claimed: ClaimedLease): Claim => {
      const sentAt = performance.now();
      const held = heartbeat.hold(claimed.generation, sentAt, {
        onLost: () => undefined,
        onCancelRequested: () => undefined,
      });
      return { claimed, held, sentAt, slot: undefined };
    },
    close: () => app.close(),
  };
}

/** A turn that has stored its first event. */
export interface RunningTurn {
  scope: TaskScope;
  turn: TurnExecution;
  loop: CommitLoop;
  taskNo: number;
  generation: number;
}

export function runningTurn(scope: TaskScope, turn: TurnExecution): RunningTurn {
  const { loop } = turn;
  const key = loop?.key;
  if (!loop || key?.generation === undefined) throw new Error('The turn has stored nothing yet');
  return { scope, turn, loop, taskNo: key.taskNo, generation: key.generation };
}

/** A task that nobody else has. */
export const newScope = (scope: Partial<TaskScope> = {}): TaskScope => ({
  tenant: '',
  owner: 'unknown',
  taskId: `task-${randomUUID()}`,
  ...scope,
});

/** A call by the owner of a scope. Each one is a call of its own: the store remembers per call what it has read. */
export const callContextOf = ({ tenant, owner }: TaskScope): ServerCallContext =>
  new ServerCallContext({ tenant, user: { isAuthenticated: owner !== 'unknown', userName: owner } });

/** Whether the write was refused because its lease is not held any more. */
export const isLost = (error: unknown): boolean => error instanceof LeaseLostError;

/** A database for one test file, its replicas, and the checks that nothing of them is left behind. */
export function useCluster(options: TestDataSourceOptions = {}) {
  Logger.overrideLogger(false);
  const timers = watchTimers();
  const replicas = new Set<Replica>();
  const databases = new Set<ClusterDatabase>();
  let db: TestDatabase;
  let dataSource: DataSource;

  beforeAll(async () => {
    db = await createTestDatabase();
    dataSource = await db.dataSource({ extra: { max: 40 }, ...options });
  });

  afterEach(async () => {
    resumeAll();
    await releaseHolds();
    await Promise.all([...replicas, ...databases].map((one) => one.close()));
    replicas.clear();
    databases.clear();
    // What a test left on purpose is not for the next one's sweepers.
    await db.query(
      'TRUNCATE a2a_task_leases, a2a_replicas, a2a_task_events, a2a_task_effects, a2a_message_receipts, ' +
        'a2a_push_configs, a2a_tasks',
    );
  });

  afterAll(async () => {
    try {
      await expectNothingLeft(db, { timers });
    } finally {
      await db.drop();
    }
  });

  return {
    get db(): TestDatabase {
      return db;
    },
    get dataSource(): DataSource {
      return dataSource;
    },
    /** A database alone, with bounds of its own. */
    database(limits: DatabaseLimits, ofDataSource = dataSource): ClusterDatabase {
      const database = new ClusterDatabase(ofDataSource, limits);
      databases.add(database);
      return database;
    },
    async replica(options?: ReplicaOptions): Promise<Replica> {
      const replica = await createCluster(dataSource, options);
      replicas.add(replica);
      return replica;
    },
    replicas(count: number): Promise<Replica[]> {
      return Promise.all(Array.from({ length: count }, () => this.replica()));
    },
  };
}

export type Cluster = ReturnType<typeof useCluster>;

import { jest } from '@jest/globals';
import type { Client } from '@a2a-js/sdk/client';
import type { ReplicaEnvironment, ReplicaProcess } from '../../tools/harness/replica-process.js';
import { type ClientOptions, clientFor } from '../../tools/harness/client.js';
import { createTestDatabase, type TestDatabase } from './database.js';
import { spawnReplica } from './replica-process.js';
import { expectNothingLeft } from './resource-check.js';

/** Short times, in ms: a killed replica's task is FAILED after TTL + sweep interval, 2.5 s. */
export const TIMES = { heartbeat: 500, ttl: 2_000, sweep: 500, poll: 250, drain: 1_000, cancel: 1_000 };

/** Beyond what is promised: what a machine may add whose cores are all busy with something else. */
export const LOAD_MS = 10_000;

/** Time limit, in ms, of hooks and tests that start replicas: alone a boot takes 1.5 s of a core. */
export const SLOW_MS = 180_000;

const BOOT_MS = 60_000;

// For every test of a file that works with replicas: a limit is there to end what hangs.
jest.setTimeout(SLOW_MS);

const ENVIRONMENT: ReplicaEnvironment = {
  A2A_HEARTBEAT_MS: TIMES.heartbeat,
  A2A_TTL_MS: TIMES.ttl,
  A2A_SWEEP_MS: TIMES.sweep,
  A2A_POLL_MS: TIMES.poll,
  A2A_DRAIN_MS: TIMES.drain,
  A2A_CANCEL_MS: TIMES.cancel,
};

/** One replica and the client that talks to it. */
export class Member {
  private constructor(
    readonly name: string,
    readonly process: ReplicaProcess,
    readonly client: Client,
    readonly url: string,
  ) {}

  static async start(name: string, env: ReplicaEnvironment): Promise<Member> {
    for (let attempt = 1; ; attempt += 1) {
      const process = spawnReplica(name, env);
      try {
        const url = await process.serves(BOOT_MS);
        return new Member(name, process, await clientFor(url, { transport: transportOf(name) }), url);
      } catch (error) {
        await process.kill();
        // Between its choice of a port and its listening somebody else may have taken that port.
        if (attempt === 3 || !process.output.some((line) => line.includes('EADDRINUSE'))) throw error;
      }
    }
  }

  /** A client of another user, over the same transport. */
  as(user: string): Promise<Client> {
    return clientFor(this.url, { transport: transportOf(this.name), user });
  }
}

/** Both transports are in use in every cluster. */
const transportOf = (name: string): NonNullable<ClientOptions['transport']> => (name === 'B' ? 'HTTP+JSON' : 'JSONRPC');

/** `application_name` of a replica's connections, in `pg_stat_activity`. */
export const backendsOf = (name: string): string => `replica ${name}`;

/** Replicas of the scripted agent, each a process of its own, on one database of their own. */
export class TestCluster {
  private readonly members = new Map<string, Member>();

  private constructor(
    readonly database: TestDatabase,
    private readonly env: ReplicaEnvironment,
  ) {}

  /** Starts replicas A, B and C, or those named. `env` is on top of the {@link TIMES}. */
  static async start(env: ReplicaEnvironment = {}, names: readonly string[] = ['A', 'B', 'C']): Promise<TestCluster> {
    const database = await createTestDatabase();
    const cluster = new TestCluster(database, { ...ENVIRONMENT, DATABASE_URL: database.url, ...env });
    await Promise.all(names.map((name) => cluster.add(name)));
    return cluster;
  }

  get a(): Member {
    return this.member('A');
  }

  get b(): Member {
    return this.member('B');
  }

  get c(): Member {
    return this.member('C');
  }

  get all(): Member[] {
    return [...this.members.values()];
  }

  /** Starts a replica under this name, in the place of the one that had it. */
  async add(name: string, env: ReplicaEnvironment = {}): Promise<Member> {
    const member = await Member.start(name, { ...this.env, PGAPPNAME: backendsOf(name), ...env });
    this.members.set(name, member);
    return member;
  }

  /** Kills a replica as a crash would. */
  async kill(name: string): Promise<void> {
    const { process } = this.member(name);
    this.members.delete(name);
    await process.kill();
  }

  /**
   * Holder, generation and expiry of the lease on a task, which lives as long as its holder's row; undefined where there is
   * none.
   */
  async lease(taskId: string): Promise<Lease | undefined> {
    const [row] = await this.database.query<{ holder: string; generation: string; expiresAt: Date; renewedAt: Date }>(
      `SELECT l.holder, l.generation, greatest(l.expires_at, r.expires_at) AS "expiresAt",
              greatest(l.renewed_at, r.renewed_at) AS "renewedAt"
         FROM a2a_task_leases AS l JOIN a2a_tasks AS t USING (task_no) LEFT JOIN a2a_replicas AS r USING (holder)
        WHERE t.task_id = $1`,
      [taskId],
    );
    return row && { ...row, pid: Number(row.holder.split(':').at(-2)) };
  }

  /** Ends all replicas in order; afterwards no lease, no connection and no database of theirs is left. */
  async stop(): Promise<void> {
    try {
      const codes = await Promise.all(this.all.map(({ process }) => process.stop()));
      expect(codes).toEqual(codes.map(() => 0));
      await expectNothingLeft(this.database);
    } finally {
      await this.database.drop();
    }
  }

  private member(name: string): Member {
    const member = this.members.get(name);
    if (!member) throw new Error(`There is no replica ${name}`);
    return member;
  }
}

export interface Lease {
  holder: string;
  pid: number;
  generation: string;
  expiresAt: Date;
  renewedAt: Date;
}

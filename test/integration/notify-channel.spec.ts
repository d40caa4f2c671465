import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type pg from 'pg';
import type { DedicatedConnection } from '../../libs/a2a-cluster/src/postgres/connection/dedicated-connection.js';
import { DatabaseTimeoutError } from '../../libs/a2a-cluster/src/errors/database-timeout.error.js';
import { NotifyChannel } from '../../libs/a2a-cluster/src/postgres/streams/notify-channel.js';
import { eventually } from '../../tools/harness/wait.js';
import { useCluster } from './cluster.fixture.js';
import { InterceptedDatabase } from './faults.fixture.js';

const TIMEOUT_MS = 10_000;

describe('Wake-ups by LISTEN and NOTIFY', () => {
  const cluster = useCluster();
  const channels: NotifyChannel[] = [];
  const databases: InterceptedDatabase[] = [];
  let warnings: string[];

  beforeEach(() => {
    warnings = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => void warnings.push(String(message)));
  });

  afterEach(async () => {
    await Promise.all(channels.splice(0).map((channel) => channel.close()));
    await Promise.all(databases.splice(0).map((database) => database.close()));
    jest.restoreAllMocks();
  });

  /** A channel that listens, and what it has heard. */
  async function channel(database = new InterceptedDatabase(cluster.dataSource, { maxTimeoutMs: TIMEOUT_MS })) {
    const heard = new Set<number>();
    const made = new NotifyChannel(database, 'a2a_tasks', TIMEOUT_MS, (taskNos) => {
      taskNos?.forEach((taskNo) => heard.add(taskNo));
    });
    channels.push(made);
    databases.push(database);
    await made.runOnce();
    return { database, heard, channel: made };
  }

  const sessions = async (): Promise<number[]> => {
    const rows = await cluster.db.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_notify%'
        ORDER BY pid`,
    );
    return rows.map(({ pid }) => pid);
  };

  const isNotify = (sql: string): boolean => sql.startsWith('SELECT pg_notify');

  it('C.19 are carried by the one session, of which it is known after the first look', async () => {
    const [a, b] = [await channel(), await channel()];
    a.channel.send(7);
    await eventually(() => b.heard.has(7));
    expect(warnings).toEqual([]);
    expect(await sessions()).toHaveLength(1); // of A; that of B has sent nothing yet
  });

  it('C.19 that the server refuses cost no session and one warning: a pause, then they are sent again', async () => {
    const [a, b] = [await channel(), await channel()];
    let refused = 0;
    a.channel.send(1);
    await eventually(() => b.heard.has(1));
    const before = await sessions();
    a.database.intercept = (sql, run) => {
      if (!isNotify(sql)) return run();
      refused += 1;
      // 42883, as good as 54000, which PostgreSQL says when its queue is full.
      return run('SELECT pg_notify($1::text, $2::text, 1)');
    };
    // For long enough that it is tried again.
    let sent = 1;
    await eventually(
      () => {
        a.channel.send((sent += 1));
        return refused > 1 && sent > 300;
      },
      { intervalMs: 1, timeoutMs: 20_000 },
    );
    expect(refused).toBeLessThan(10);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/^\d+ wake-ups for other replicas were not sent, .*polls find.*pg_notify/);
    a.database.intercept = (_sql, run) => run();
    await eventually(() => {
      a.channel.send(9_999);
      return b.heard.has(9_999);
    });
    expect(await sessions()).toEqual(before);
    expect(warnings).toHaveLength(1);
  });

  it('C.19 whose connection is lost are sent again as soon as the next look has made another', async () => {
    const [a, b] = [await channel(), await channel()];
    a.channel.send(1);
    await eventually(() => b.heard.has(1));
    await cluster.db.query('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS p(pid)', [await sessions()]);
    let failures = 0;
    a.database.intercept = (sql, run) => {
      if (!isNotify(sql)) return run();
      failures += 1;
      return Promise.reject(new DatabaseTimeoutError(TIMEOUT_MS));
    };
    await eventually(() => {
      a.channel.send(2);
      return failures === 5; // the pause that follows is longer than what is waited for below
    });
    a.database.intercept = (_sql, run) => run();
    await a.channel.runOnce();
    a.channel.send(3);
    await eventually(() => b.heard.has(3), { timeoutMs: 1_000 });
    expect(warnings).toHaveLength(1);
  });

  it('C.19 a listener that stands still and does not read is ended by the server, and pins no xmin any more', async () => {
    let frozen: pg.Client | undefined;
    class FreezingDatabase extends InterceptedDatabase {
      override dedicated(
        onConnected: (client: pg.Client) => Promise<void> = () => Promise.resolve(),
        onLost?: (error: Error) => void,
      ): DedicatedConnection {
        const listen = (client: pg.Client): Promise<void> => {
          frozen = client;
          return onConnected(client);
        };
        return super.dedicated(listen, onLost);
      }
    }
    const a = await channel(new FreezingDatabase(cluster.dataSource, { maxTimeoutMs: TIMEOUT_MS }));
    const { processID, connection } = frozen as unknown as {
      processID: number;
      connection: { stream: { pause(): void } };
    };
    const { channel: name } = a.channel as unknown as { channel: string };
    connection.stream.pause();
    const state = async (): Promise<{ waits: boolean; xmin: boolean } | undefined> => {
      const [row] = await cluster.db.query<{ waits: boolean; xmin: boolean }>(
        `SELECT wait_event IS NOT DISTINCT FROM 'ClientWrite' AS waits, backend_xmin IS NOT NULL AS xmin
           FROM pg_stat_activity WHERE pid = $1`,
        [processID],
      );
      return row;
    };
    expect(await state()).toEqual({ waits: false, xmin: false });
    // Until the buffers of its socket are full, and stay so.
    let stuck = 0;
    await eventually(
      async () => {
        await cluster.db.query(
          `SELECT pg_notify($1, 'x:' || i || repeat('0', 7000)) FROM generate_series(1, 500) AS i`,
          [name],
        );
        const now = await state();
        stuck = now?.waits && now.xmin ? stuck + 1 : 0;
        return stuck === 5;
      },
      { timeoutMs: 30_000 },
    );
    await eventually(async () => (await state()) === undefined, { timeoutMs: 40_000, intervalMs: 200 });
  }, 90_000);
});

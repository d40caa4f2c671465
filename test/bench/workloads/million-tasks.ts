import { type ListTasksRequest, TaskState } from '@a2a-js/sdk';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type pg from 'pg';
import { callContext } from '../agent/messages.js';
import { startOurs } from '../contenders/ours.js';
import { startPeer } from '../contenders/peer.js';
import { contenderPool, withClient } from '../environment.js';
import type { Contender } from '../measurements.js';
import { interleaved } from '../rounds.js';
import { dropIndexes, seededId, seedTasks } from '../seed.js';
import { quantile } from '../statistics.js';
import type { Workload } from '../workload.js';

const TASKS = 1_000_000;
const OWNERS = 1_000;
/** Of each owner. */
const CONTEXTS = 20;
const ROUNDS = 3;
const CALLS = 200;
const PAGE = 50;

type Call = (n: number) => Promise<unknown>;

const OWNER = `'owner-' || (n % ${OWNERS})`;
const CONTEXT = `'context-' || (n / ${OWNERS}) % ${CONTEXTS}`;
/** One task of each owner. */
const RUNNING = `(n + n / ${OWNERS}) % ${OWNERS} = 0`;
const ownerOf = (n: number): string => `owner-${n % OWNERS}`;
const contextOf = (n: number): string => `context-${Math.floor(n / OWNERS) % CONTEXTS}`;

const METRICS = ['GetTask', 'ListTasks', 'ListTasks by context', 'ListTasks by status', 'sweep'];

/** W8: reads and sweeps where much is stored. */
export const millionTasks: Workload = {
  name: 'W8',
  title: `reads and sweeps with ${TASKS.toLocaleString('en-US')} stored tasks of ${OWNERS.toLocaleString('en-US')} owners, and 1,000 leases`,
  without: {},
  bounds: METRICS.map((metric) => ({ metric: `${metric} p99`, atMost: 20, unit: 'ms' })),
  charted: METRICS.map((metric) => `${metric} p99`),
  async run(environment, measured) {
    const url = await environment.createClusterDatabase();
    await seedTasks(url, { tasks: TASKS, owner: OWNER, context: CONTEXT, running: RUNNING });
    const peerUrl = await environment.createDatabase();
    const [ours, peer] = [await startOurs(url), await startPeer(peerUrl)];
    await seedPeer(peerUrl);
    const limit = contenderPool(url);
    const contenders: [Contender, Record<string, Call>][] = [
      ['ours', { ...callsOf(ours.handler), sweep: () => ours.sweeper.runOnce() }],
      ['peer', callsOf(peer.handler)],
      ['limit', limitCalls(limit)],
    ];
    try {
      await interleaved(ROUNDS, contenders, measured, async ([contender, calls], record) => {
        for (const [name, call] of Object.entries(calls)) {
          const took: number[] = [];
          for (let at = 0; at < CALLS; at += 1) {
            const begun = performance.now();
            await call(1 + Math.floor(Math.random() * TASKS));
            took.push(performance.now() - begun);
          }
          record(contender, `${name} p50`, 'ms', quantile(took, 0.5));
          record(contender, `${name} p99`, 'ms', quantile(took, 0.99));
        }
      });
    } finally {
      await Promise.all([ours.close(), peer.close(), limit.end()]);
    }
  },
};

function callsOf(handler: A2ARequestHandler): Record<string, Call> {
  const list = async (n: number, filter: Partial<ListTasksRequest>): Promise<void> => {
    const { tasks } = await handler.listTasks({ ...EVERYTHING, pageSize: PAGE, ...filter }, callContext(ownerOf(n)));
    if (tasks.length !== PAGE) throw new Error(`A page of ${tasks.length} tasks`);
  };
  return {
    GetTask: (n) => handler.getTask({ tenant: '', id: seededId(n), historyLength: undefined }, callContext(ownerOf(n))),
    ListTasks: (n) => list(n, {}),
    'ListTasks by context': (n) => list(n, { contextId: contextOf(n) }),
    'ListTasks by status': (n) => list(n, { status: TaskState.TASK_STATE_COMPLETED }),
  };
}

const EVERYTHING: ListTasksRequest = {
  tenant: '',
  contextId: '',
  status: TaskState.TASK_STATE_UNSPECIFIED,
  pageToken: '',
  statusTimestampAfter: undefined,
  historyLength: undefined,
  includeArtifacts: undefined,
};

/** The rows by the same indexes, prepared, without what makes a task of them and without the total. */
function limitCalls(pool: pg.Pool): Record<string, Call> {
  const owned = `tenant = '' AND owner = $1 AND agent = 'default'`;
  const page = `ORDER BY state_since DESC, task_no DESC LIMIT ${PAGE + 1}`;
  const run = (name: string, where: string, values: string[]) =>
    pool.query({ name, text: `SELECT snapshot FROM a2a_tasks WHERE ${where}`, values });
  return {
    GetTask: (n) => run('get', `tenant = '' AND owner = $1 AND task_id = $2`, [ownerOf(n), seededId(n)]),
    ListTasks: (n) => run('list', `${owned} ${page}`, [ownerOf(n)]),
    'ListTasks by context': (n) => run('context', `${owned} AND context_id = $2 ${page}`, [ownerOf(n), contextOf(n)]),
    'ListTasks by status': (n) =>
      run('status', `${owned} AND state = $2 ${page}`, [ownerOf(n), 'TASK_STATE_COMPLETED']),
  };
}

/** The same tasks in the table of the SDK. */
async function seedPeer(url: string): Promise<void> {
  const status = `'{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-01T00:00:00.000Z"}'`;
  const artifacts = `'[{"artifactId":"a","parts":[{"text":"${'x'.repeat(200)}"}]}]'`;
  await withClient(url, async (client) => {
    const createIndexes = await dropIndexes(client, 'tasks');
    await client.query(
      `INSERT INTO tasks (tenant, owner, id, context_id, status_last_updated, status_state, status, artifacts, history,
                          metadata, protocol_version)
       SELECT '', ${OWNER}, 'task-' || n, ${CONTEXT}, 1760000000000 + n, 'TASK_STATE_COMPLETED', ${status},
              ${artifacts}, '[]', NULL, '1.0'
         FROM generate_series(1, ${TASKS}) AS n`,
    );
    for (const createIndex of createIndexes) await client.query(createIndex);
    await client.query('VACUUM (ANALYZE) tasks');
  });
}

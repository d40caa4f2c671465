import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { callContext, sendRequest } from '../agent/messages.js';
import { monotonicMs } from '../agent/script.js';
import { startOurs } from '../contenders/ours.js';
import type { Contender, Record } from '../measurements.js';
import type { FollowerLag } from '../processes/followers.process.js';
import { runProcess } from '../processes/run-process.js';
import { interleaved } from '../rounds.js';
import { quantile } from '../statistics.js';
import type { Workload } from '../workload.js';

const ROUNDS = 3;
const FOLLOWERS = 100;
const EVENTS = 250;
const EVERY_MS = 20;
const BYTES = 200;
const POLL_MS = 1_000;

/** W4: how long an event takes from the replica that publishes it to the subscribers of another one. */
export const followLag: Workload = {
  name: 'W4',
  title: `from publish on A to ${FOLLOWERS} followers on B, ${1_000 / EVERY_MS} events/s (limit: NOTIFY and a read)`,
  without: { peer: 'its subscribers hear only of turns of their own replica' },
  bounds: [
    { metric: 'lag p50', atMost: 10, unit: 'ms' },
    { metric: 'lag p99', atMost: 50, unit: 'ms' },
    { metric: 'lag p99 without NOTIFY', atMost: POLL_MS, unit: 'ms' },
  ],
  charted: ['lag p50', 'lag p99'],
  async run(environment, measured) {
    const contenders: [Contender, string, () => Promise<FollowerLag>][] = [
      ['ours', '', async () => lagOfOurs(await environment.createClusterDatabase(), true)],
      ['ours', ' without NOTIFY', async () => lagOfOurs(await environment.createClusterDatabase(), false)],
      ['limit', '', async () => lagOfNotify(await environment.createClusterDatabase())],
    ];
    await interleaved(ROUNDS, contenders, measured, async ([contender, how, lagsOf], record: Record) => {
      const { p50Ms, p99Ms } = await lagsOf();
      record(contender, `lag p50${how}`, 'ms', p50Ms);
      record(contender, `lag p99${how}`, 'ms', p99Ms);
    });
  },
};

async function lagOfOurs(url: string, notify: boolean): Promise<FollowerLag> {
  const streams = { notify, pollIntervalMs: POLL_MS };
  const a = await startOurs(url, { streams });
  try {
    const request = sendRequest(`paced ${EVENTS} ${EVERY_MS} ${BYTES}`, { returnImmediately: true });
    const task = await a.handler.sendMessage(request, callContext());
    if (!('status' in task)) throw new Error('The send was not answered with a task');
    const input = { url, streams, taskId: task.id, followers: FOLLOWERS };
    const lag = await runProcess<FollowerLag>('followers', input, () => a.release());
    if (lag.deliveries !== FOLLOWERS * EVENTS) throw new Error(`There were ${lag.deliveries} deliveries`);
    return lag;
  } finally {
    await a.close();
  }
}

/** A row, a notification, and a read of the row by whoever heard it. */
async function lagOfNotify(url: string): Promise<FollowerLag> {
  const [a, ears, b] = Array.from({ length: 3 }, () => new pg.Client({ connectionString: url }));
  const clients = [a!, ears!, b!];
  await Promise.all(clients.map((client) => client.connect()));
  const lags: number[] = [];
  let reading = Promise.resolve();
  const read = async (version: string): Promise<void> => {
    const { rows } = await b!.query<{ event: string }>({ name: 'read', text: SELECT, values: [version] });
    lags.push(monotonicMs() - (JSON.parse(rows[0]!.event) as { publishedAt: number }).publishedAt);
  };
  try {
    const allHeard = new Promise<void>((resolve) => {
      ears!.on('notification', ({ payload = '' }) => {
        reading = reading.then(() => read(payload));
        if (Number(payload) === EVENTS) resolve();
      });
    });
    await ears!.query('LISTEN bench');
    const begun = monotonicMs();
    for (let event = 1; event <= EVENTS; event += 1) {
      await pause(Math.max(0, begun + event * EVERY_MS - monotonicMs()));
      const text = JSON.stringify({ text: 'x'.repeat(BYTES), publishedAt: monotonicMs() });
      await a!.query({ name: 'insert', text: INSERT, values: [event, text] });
      await a!.query({ name: 'notify', text: NOTIFY, values: [String(event)] });
    }
    await allHeard;
    await reading;
    return { deliveries: lags.length, p50Ms: quantile(lags, 0.5), p99Ms: quantile(lags, 0.99) };
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

const INSERT = 'INSERT INTO a2a_task_events (task_no, version, event, commit_id) VALUES (1, $1, $2, gen_random_uuid())';
const SELECT = 'SELECT event FROM a2a_task_events WHERE task_no = 1 AND version = $1';
const NOTIFY = `SELECT pg_notify('bench', $1)`;

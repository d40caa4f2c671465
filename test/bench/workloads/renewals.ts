import { withClient } from '../environment.js';
import { startOurs } from '../contenders/ours.js';
import { blockingTurn } from '../driver.js';
import { interleaved } from '../rounds.js';
import { SEED_HOLDER, seedTasks } from '../seed.js';
import { StatementCounter } from '../statement-counter.js';
import type { Workload } from '../workload.js';

const ROUNDS = 8;
const HELD = [10, 1_000, 10_000] as const;
const TTL_MS = 3_600_000;
/** The default: how often a replica renews what it holds. */
const HEARTBEAT_MS = 30_000;
const WINDOW_MS = 1_500;
const AT_ONCE = 64;
/** A snapshot that is as old as so many rounds, each of so many leases. */
const OLD_ROUNDS = 100;
const OLD_HELD = 1_000;
const OLD = `round of ${OLD_HELD.toLocaleString('en-US')} beside a snapshot ${OLD_ROUNDS} rounds old`;
const LOST = 'turns lost to the renewals of 10,000';

/** W5: what renewing leases costs, by itself and turns that run meanwhile. */
export const renewals: Workload = {
  name: 'W5',
  title: `a renewal round with ${HELD.map((held) => held.toLocaleString('en-US')).join(' / ')} held leases, and beside W1`,
  without: { peer: 'it has no leases', limit: 'the round is a row’s update and a look already' },
  bounds: [
    ...HELD.map((held) => ({ metric: statementsWith(held), atMost: 2 })),
    { metric: LOST, atMost: 5, unit: '%' },
  ],
  charted: HELD.map(roundWith),
  async run(environment, measured) {
    const url = await environment.createClusterDatabase();
    await seedTasks(url, { tasks: Math.max(...HELD), expiresInMs: TTL_MS });
    const generations = await withClient(url, async (client) => {
      const { rows } = await client.query<{ generation: string }>('SELECT generation FROM a2a_task_leases');
      return rows.map(({ generation }) => Number(generation));
    });
    const ours = await startOurs(url, { leases: { heartbeatIntervalMs: HEARTBEAT_MS, ttlMs: 4 * HEARTBEAT_MS } });
    const renew = async (held: number): Promise<number> => {
      const begun = performance.now();
      const renewed = await ours.leases.renew(SEED_HOLDER, generations.slice(0, held), TTL_MS);
      if (renewed?.length !== held) throw new Error(`${renewed?.length} of ${held} leases were renewed`);
      return performance.now() - begun;
    };
    const counter = new StatementCounter();
    try {
      await interleaved(ROUNDS, HELD, measured, async (held, record) => {
        counter.take();
        const tookMs = await renew(held);
        record('ours', statementsWith(held), '', counter.take('a2a_'));
        record('ours', roundWith(held), 'ms', tookMs);
      });
      // Versions of rows that an old snapshot may still see are kept for as long as it is open.
      await withClient(url, async (client) => {
        await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
        await client.query('SELECT count(*) FROM a2a_tasks');
        for (let round = 0; round < OLD_ROUNDS; round += 1) await renew(OLD_HELD);
        for (let round = 0; round < ROUNDS; round += 1) measured.record('ours', OLD, 'ms', await renew(OLD_HELD));
        await client.query('ROLLBACK');
      });
      let undisturbed = 0;
      await interleaved(ROUNDS, ['without', 'with'] as const, measured, async (which, record) => {
        const renewing = which === 'with' ? renew(Math.max(...HELD)) : undefined;
        const done = await turnsWithin(WINDOW_MS, () => blockingTurn(ours.handler));
        await renewing;
        if (which === 'without') undisturbed = done;
        // A window has one round in it, as the whole time between two heartbeats has.
        else record('ours', LOST, '%', 100 * (1 - done / undisturbed) * (WINDOW_MS / HEARTBEAT_MS));
      });
    } finally {
      counter.stop();
      await ours.close();
    }
  },
};

/** How many turns are done in so many ms, with as many at once as in W1. */
async function turnsWithin(ms: number, turn: () => Promise<void>): Promise<number> {
  const end = performance.now() + ms;
  let done = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() < end) {
      await turn();
      if (performance.now() < end) done += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return done;
}

function statementsWith(held: number): string {
  return `statements of a round of ${held.toLocaleString('en-US')}`;
}

function roundWith(held: number): string {
  return `round of ${held.toLocaleString('en-US')}`;
}

import type { TestDatabase } from '../helpers/database.js';
import { type Cluster, type Replica, type RunningTurn, runningTurn } from './cluster.fixture.js';
import { expireLeases } from './rows.fixture.js';

export interface EffectColumns {
  state: string;
  replay: string;
  attempt: number;
  generation: number;
  result: string | null;
  settled: boolean;
}

/** What is recorded of a task's outside actions and transactions, by key, as anyone sees it. */
export async function effectRows(db: TestDatabase, taskNo: number): Promise<Record<string, EffectColumns>> {
  const rows = await db.query<EffectColumns & { key: string }>(
    `SELECT key, state, replay, attempt, generation, result, settled_at IS NOT NULL AS settled
       FROM a2a_task_effects WHERE task_no = $1`,
    [taskNo],
  );
  return Object.fromEntries(rows.map(({ key, ...row }) => [key, { ...row, generation: Number(row.generation) }]));
}

/** The lease of a turn runs out and another replica claims it. */
export async function claimFrom(cluster: Cluster, { scope, taskNo }: RunningTurn, other?: Replica) {
  const by = other ?? (await cluster.replica());
  await expireLeases(cluster.db, taskNo);
  const [claimed] = await by.leases.claim({ holder: by.holderId, ttlMs: 60_000, limit: 1, scope });
  return { by, claimed: claimed! };
}

/** The same, and the turn begins once more there. */
export async function nextAttempt(cluster: Cluster, running: RunningTurn, by?: Replica): Promise<RunningTurn> {
  const claim = await claimFrom(cluster, running, by);
  await claim.by.leases.begin(claim.claimed.generation);
  return runningTurn(running.scope, await claim.by.resumeTurn(claim.by.claimOf(claim.claimed)));
}

/** What a call is rejected with. */
export const errorOf = (outcome: Promise<unknown>): Promise<Error> =>
  outcome.then(
    (value) => {
      throw new Error(`It was to fail, and returned ${String(value)}`);
    },
    (error: unknown) => error as Error,
  );

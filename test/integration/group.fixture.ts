import type { TaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import type { Cluster, Replica, RunningTurn } from './cluster.fixture.js';
import { status, WORKING } from './events.fixture.js';
import { type Guardless, InterceptedDatabase, type Interception } from './faults.fixture.js';

const COMMITS = /^\s*WITH a AS MATERIALIZED/;
/** Only a group bounds its wait for locks, in a parameter. */
const LOCK_TIMEOUT = /set_config\('lock_timeout', \$(\d+), true\)/;

function isGroup(sql: string, params: readonly unknown[]): boolean {
  const at = COMMITS.test(sql) && LOCK_TIMEOUT.exec(sql)?.[1];
  return Boolean(at) && params[Number(at) - 1] !== null;
}

/** A replica whose groups a test counts and stands in the way of. */
export type GroupingReplica = Omit<Replica, 'database'> & { database: InterceptedDatabase; groups: () => number };

export interface GroupingOptions {
  guard?: Guardless | undefined;
  /** Its groups stand before a lock for as long as it is held. */
  patient?: boolean;
}

export async function groupingReplica(
  cluster: Cluster,
  { guard, patient }: GroupingOptions = {},
): Promise<GroupingReplica> {
  let groups = 0;
  const replica = await cluster.replica({
    database: (...args) => (guard ? guard.database(...args) : new InterceptedDatabase(...args)),
  });
  const database = replica.database as InterceptedDatabase;
  interceptGroups(database, (sql, run) => {
    groups += 1;
    return run(patient ? sql.replace(LOCK_TIMEOUT, "set_config('lock_timeout', left($$$1, 0) || '0', true)") : sql);
  });
  return { ...replica, database, groups: () => groups };
}

/** Has a test between the replica and the database, for groups alone. */
export function interceptGroups(database: InterceptedDatabase, intercept: Interception): void {
  const others = database.intercept;
  database.intercept = (sql, run, params) => {
    if (!isGroup(sql, params ?? [])) return others(sql, run, params);
    return intercept(sql, (text = sql) => others(text, (guardless = text) => run(guardless), params), params);
  };
}

/**
 * Publishes these events at once, behind those of two other turns which keep the replica busy: they go in one group.
 * Returns what became of each, as soon as it is stored or refused.
 */
export async function publishTogether(
  replica: Pick<Replica, 'working'>,
  commits: readonly (readonly [RunningTurn, TaskEvent])[],
): Promise<Promise<unknown>[]> {
  const others = await Promise.all([replica.working(), replica.working()]);
  for (const { loop, scope } of others) loop.add(status(scope, WORKING));
  for (const [{ loop }, event] of commits) loop.add(event);
  return commits.map(([{ turn }]) => turn.flush().catch((error: unknown) => error));
}

/** So many turns of a replica, at work. */
export const turnsAtWork = (replica: Pick<Replica, 'working'>, count: number): Promise<RunningTurn[]> =>
  Promise.all(Array.from({ length: count }, () => replica.working()));

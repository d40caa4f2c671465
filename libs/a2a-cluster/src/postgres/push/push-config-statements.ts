import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { decodeConfig } from '../../push/push-config.codec.js';
import type { ClaimedPush } from '../../push/push-config-store.js';
import type { PushReceiver } from '../../tasks/task-store.js';
import { Statement } from '../connection/statement.js';

/** The tables that the push statements name. */
export interface PushTables {
  tasks: string;
  pushConfigs: string;
}

interface ConfigKey {
  taskNo: number;
  configId: string;
}

interface ClaimKey extends ConfigKey {
  claim: string;
}

interface ClaimParams {
  agent: string;
  limit: number;
  claimMs: number;
  /** Whether those whose last try failed, or the others. Undefined: all, the others first. */
  failed: boolean | undefined;
  /**
   * Whether those come first that were never claimed. A dispatcher that takes turns lets neither many new ones nor many old
   * ones hold up the others.
   */
  newFirst: boolean;
}

interface ProgressParams {
  deliveredVersion: number;
  attempts: number;
  /** In ms. Undefined: never. */
  againInMs: number | undefined;
  /** Why it is given up. */
  failed: string | undefined;
}

type ClaimedRow = Omit<ClaimedPush, 'taskNo' | 'config'> & { taskNo: string; config: string };

const claimedPush = ({ taskNo, config, ...row }: ClaimedRow): ClaimedPush => ({
  ...row,
  taskNo: Number(taskNo),
  config: decodeConfig(config),
});

const decodedConfig = ({ config }: { config: string }): TaskPushNotificationConfig => decodeConfig(config);

/** By its end, to the microsecond and back the same, a claim is told from every other. */
const claimEnd = (t: string): string =>
  `to_char(${t}.claimed_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** By this a receiver is told from one that was registered anew: changed, or with its failures forgiven. */
const registered = (t: string): string =>
  `(${t}.attempts || ' ' || hashtextextended(${t}.wire_version || ' ' || ${t}.config, 0))`;

const claimMark = (t: string): string => `${claimEnd(t)} || ' ' || ${registered(t)}`;

/**
 * A receiver that is there keeps its place in the log, and the claim that is on it: it is told by one at a time. One that
 * was given up, or is through, is due again.
 */
export const saveStatement = ({ tasks, pushConfigs }: PushTables): Statement<PushReceiver & { taskNo: number }> =>
  new Statement(`
  INSERT INTO ${pushConfigs} AS p (task_no, config_id, config, wire_version, delivered_version)
  SELECT t.task_no, $configId, $config, $wireVersion, t.version FROM ${tasks} AS t WHERE t.task_no = $taskNo
  ON CONFLICT (task_no, config_id) DO UPDATE
     SET config = EXCLUDED.config, wire_version = EXCLUDED.wire_version, attempts = 0, failed = NULL,
         claimed_until = CASE WHEN p.failed IS NULL AND p.claimed_until < 'infinity' THEN p.claimed_until END`);

/** In an order of bytes, which is that of ids everywhere. */
export const listStatement = ({
  pushConfigs,
}: PushTables): Statement<{ taskNo: number; afterId: string; limit: number | undefined }, TaskPushNotificationConfig> =>
  new Statement(
    `
  SELECT config FROM ${pushConfigs}
   WHERE task_no = $taskNo AND config_id COLLATE "C" > $afterId
   ORDER BY config_id COLLATE "C"
   LIMIT $limit`,
    decodedConfig,
  );

export const findStatement = ({ pushConfigs }: PushTables): Statement<ConfigKey, TaskPushNotificationConfig> =>
  new Statement(
    `
  SELECT config FROM ${pushConfigs} WHERE task_no = $taskNo AND config_id = $configId`,
    decodedConfig,
  );

export const deleteStatement = ({ pushConfigs }: PushTables): Statement<ConfigKey> =>
  new Statement(`
  DELETE FROM ${pushConfigs} WHERE task_no = $taskNo AND config_id = $configId`);

/**
 * Receivers alone, SKIP LOCKED: two dispatchers never get the same one. One that has been told the end of its task is
 * due at 'infinity', where the index leaves it alone. One that stands beyond its task was told what the database has lost
 * since; the dispatcher looks again, since the task's row is not locked here.
 */
export const claimStatement = ({ tasks, pushConfigs }: PushTables): Statement<ClaimParams, ClaimedPush> =>
  new Statement(
    `
  WITH due AS MATERIALIZED (
    SELECT p.task_no, p.config_id
      FROM ${pushConfigs} AS p JOIN ${tasks} AS t ON t.task_no = p.task_no
     WHERE p.failed IS NULL AND (p.claimed_until IS NULL OR p.claimed_until <= (SELECT clock_timestamp()))
       AND t.agent = $agent AND p.delivered_version <> t.version
       AND ($failed::boolean IS NULL OR (p.attempts > 0) = $failed)
     ORDER BY ($failed::boolean IS NULL AND p.attempts > 0), (p.claimed_until IS NULL) = $newFirst DESC, p.claimed_until
     LIMIT $limit
       FOR UPDATE OF p SKIP LOCKED
  )
  UPDATE ${pushConfigs} AS x
     SET claimed_until = clock_timestamp() + $claimMs::double precision * interval '1 millisecond'
    FROM due
   WHERE x.task_no = due.task_no AND x.config_id = due.config_id
  RETURNING x.task_no AS "taskNo", x.config, x.wire_version AS "wireVersion",
            x.delivered_version AS "deliveredVersion", x.attempts, ${claimMark('x')} AS claim`,
    claimedPush,
  );

/**
 * Only by whoever holds the claim, and for the receiver that was claimed: what comes of a POST to one that was changed
 * meanwhile is not to its account. Nobody else moves the cursor, which goes back only where the log did.
 */
export const progressStatement = ({
  pushConfigs,
}: PushTables): Statement<ClaimKey & ProgressParams, { claim: string }> =>
  new Statement(`
  UPDATE ${pushConfigs} AS p
     SET delivered_version = $deliveredVersion::integer, attempts = $attempts::integer, failed = $failed,
         claimed_until = CASE WHEN $againInMs::double precision IS NULL THEN 'infinity'
                              ELSE clock_timestamp() + $againInMs::double precision * interval '1 millisecond' END
   WHERE task_no = $taskNo AND config_id = $configId AND claimed_until = split_part($claim, ' ', 1)::timestamptz
     AND ${registered('p')} = substr($claim, strpos($claim, ' ') + 1)
  RETURNING ${claimMark('p')} AS claim`);

/** A receiver that was registered anew under a claim is due at once, from where it was recorded to stand. */
export const releaseStatement = ({ pushConfigs }: PushTables): Statement<ClaimKey> =>
  new Statement(`
  UPDATE ${pushConfigs} SET claimed_until = clock_timestamp()
   WHERE task_no = $taskNo AND config_id = $configId AND claimed_until = split_part($claim, ' ', 1)::timestamptz`);

/** The statements of one set of tables. */
export interface PushStatements {
  save: ReturnType<typeof saveStatement>;
  list: ReturnType<typeof listStatement>;
  find: ReturnType<typeof findStatement>;
  delete: ReturnType<typeof deleteStatement>;
  claim: ReturnType<typeof claimStatement>;
  progress: ReturnType<typeof progressStatement>;
  release: ReturnType<typeof releaseStatement>;
}

export const pushStatements = (tables: PushTables): PushStatements => ({
  save: saveStatement(tables),
  list: listStatement(tables),
  find: findStatement(tables),
  delete: deleteStatement(tables),
  claim: claimStatement(tables),
  progress: progressStatement(tables),
  release: releaseStatement(tables),
});

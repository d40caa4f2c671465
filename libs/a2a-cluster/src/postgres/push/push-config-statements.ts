/** The tables that the push statements name. */
export interface PushTables {
  tasks: string;
  pushConfigs: string;
}

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
 * $1 task_no, $2 config id, $3 config, $4 wire version.
 */
export const saveStatement = ({ tasks, pushConfigs }: PushTables): string => `
  INSERT INTO ${pushConfigs} AS p (task_no, config_id, config, wire_version, delivered_version)
  SELECT t.task_no, $2, $3, $4, t.version FROM ${tasks} AS t WHERE t.task_no = $1
  ON CONFLICT (task_no, config_id) DO UPDATE
     SET config = EXCLUDED.config, wire_version = EXCLUDED.wire_version, attempts = 0, failed = NULL,
         claimed_until = CASE WHEN p.failed IS NULL AND p.claimed_until < 'infinity' THEN p.claimed_until END`;

/** In an order of bytes, which is that of ids everywhere. $1 task_no, $2 an id they are behind, $3 limit or null. */
export const listStatement = ({ pushConfigs }: PushTables): string => `
  SELECT config FROM ${pushConfigs}
   WHERE task_no = $1 AND config_id COLLATE "C" > $2
   ORDER BY config_id COLLATE "C"
   LIMIT $3`;

/** $1 task_no, $2 config id. */
export const findStatement = ({ pushConfigs }: PushTables): string => `
  SELECT config FROM ${pushConfigs} WHERE task_no = $1 AND config_id = $2`;

/** $1 task_no, $2 config id. */
export const deleteStatement = ({ pushConfigs }: PushTables): string => `
  DELETE FROM ${pushConfigs} WHERE task_no = $1 AND config_id = $2`;

/**
 * Receivers alone, SKIP LOCKED: two dispatchers never get the same one. One that has been told the end of its task is
 * due at 'infinity', where the index leaves it alone. One that stands beyond its task was told what the database has lost
 * since; the dispatcher looks again, since the task's row is not locked here.
 * $1 agent, $2 limit, $3 ms, $4 whether those whose last try failed, or null for all, those that did not fail first;
 * $5 whether those come first that were never claimed: a dispatcher that takes turns lets neither many new ones nor many
 * old ones hold up the others.
 */
export const claimStatement = ({ tasks, pushConfigs }: PushTables): string => `
  WITH due AS MATERIALIZED (
    SELECT p.task_no, p.config_id
      FROM ${pushConfigs} AS p JOIN ${tasks} AS t ON t.task_no = p.task_no
     WHERE p.failed IS NULL AND (p.claimed_until IS NULL OR p.claimed_until <= (SELECT clock_timestamp()))
       AND t.agent = $1 AND p.delivered_version <> t.version
       AND ($4::boolean IS NULL OR (p.attempts > 0) = $4)
     ORDER BY ($4::boolean IS NULL AND p.attempts > 0), (p.claimed_until IS NULL) = $5 DESC, p.claimed_until
     LIMIT $2
       FOR UPDATE OF p SKIP LOCKED
  )
  UPDATE ${pushConfigs} AS x
     SET claimed_until = clock_timestamp() + $3::double precision * interval '1 millisecond'
    FROM due
   WHERE x.task_no = due.task_no AND x.config_id = due.config_id
  RETURNING x.task_no AS "taskNo", x.config, x.wire_version AS "wireVersion",
            x.delivered_version AS "deliveredVersion", x.attempts, ${claimMark('x')} AS claim`;

/**
 * Only by whoever holds the claim, and for the receiver that was claimed: what comes of a POST to one that was changed
 * meanwhile is not to its account. Nobody else moves the cursor, which goes back only where the log did.
 * $1 task_no, $2 config id, $3 claim, $4 version, $5 attempts, $6 ms until it is due or null for never, $7 why it failed.
 */
export const progressStatement = ({ pushConfigs }: PushTables): string => `
  UPDATE ${pushConfigs} AS p
     SET delivered_version = $4::integer, attempts = $5::integer, failed = $7,
         claimed_until = CASE WHEN $6::double precision IS NULL THEN 'infinity'
                              ELSE clock_timestamp() + $6::double precision * interval '1 millisecond' END
   WHERE task_no = $1 AND config_id = $2 AND claimed_until = split_part($3, ' ', 1)::timestamptz
     AND ${registered('p')} = substr($3, strpos($3, ' ') + 1)
  RETURNING ${claimMark('p')} AS claim`;

/**
 * A receiver that was registered anew under a claim is due at once, from where it was recorded to stand.
 * $1 task_no, $2 config id, $3 claim.
 */
export const releaseStatement = ({ pushConfigs }: PushTables): string => `
  UPDATE ${pushConfigs} SET claimed_until = clock_timestamp()
   WHERE task_no = $1 AND config_id = $2 AND claimed_until = split_part($3, ' ', 1)::timestamptz`;

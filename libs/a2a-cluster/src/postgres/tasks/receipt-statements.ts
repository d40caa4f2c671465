import { isTask, SCOPE_FIRST } from './task-key.js';

/** The tables that the receipt statements name. */
export interface ReceiptTables {
  tasks: string;
  receipts: string;
}

/** The sequence that numbers the tasks. */
export const taskNumbers = ({ tasks }: ReceiptTables): string =>
  `pg_get_serial_sequence('${tasks.replaceAll("'", "''")}', 'task_no')`;

/**
 * A receipt that is out of its window is taken over; a valid one stays and says so. The condition looks at the receipt
 * alone: its row is read anew once a concurrent insert is through, what a subquery sees is as old as the statement.
 */
export const takeOver = (window: string): string => `
    ON CONFLICT (tenant, owner, agent, message_id, fingerprint) DO UPDATE
      SET task_no = EXCLUDED.task_no, created_at = EXCLUDED.created_at
    WHERE r.created_at <= clock_timestamp() - ${window}::double precision * interval '1 millisecond'
    RETURNING r.task_no`;

/**
 * The receipt as part of a new task's first commit, which takes its number from it. Its parameters begin at `first`:
 * message id, hash, window. The others are the commit's: $1 tenant, $2 owner, $3 task id, $4 agent.
 */
export const firstReceipt = (tables: ReceiptTables, first: number): string => `r AS (
    INSERT INTO ${tables.receipts} AS r (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
    SELECT $1, $2, $4, $${first}, $${first + 1},
           nextval(${taskNumbers(tables)}), clock_timestamp()
     WHERE NOT EXISTS (SELECT FROM ${tables.tasks} AS k WHERE ${isTask('k', SCOPE_FIRST)})
    ${takeOver(`$${first + 2}`)}
  )`;

/**
 * The message of a follow-up, under its task's lock.
 * $1 tenant, $2 owner, $3 agent, $4 message id, $5 hash, $6 window, $7 task_no.
 */
export const rememberStatement = (tables: ReceiptTables): string => `
  INSERT INTO ${tables.receipts} AS r (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
  VALUES ($1, $2, $3, $4, $5, $7, clock_timestamp())
  ${takeOver('$6')}`;

/** A receipt outlives a task that was deleted. $1 tenant, $2 owner, $3 agent, $4 message id, $5 hash. */
export const forgetOrphanStatement = ({ receipts, tasks }: ReceiptTables): string => `
  DELETE FROM ${receipts} AS r
   WHERE r.tenant = $1 AND r.owner = $2 AND r.agent = $3 AND r.message_id = $4 AND r.fingerprint = $5
     AND NOT EXISTS (SELECT FROM ${tasks} AS k WHERE k.task_no = r.task_no)`;

/** $1 tenant, $2 owner, $3 agent, $4 message id, $5 hash, $6 window. */
export const repeatedStatement = ({ receipts, tasks }: ReceiptTables): string => `
  SELECT r.task_no AS "taskNo"
    FROM ${receipts} AS r JOIN ${tasks} AS t ON t.task_no = r.task_no
   WHERE r.tenant = $1 AND r.owner = $2 AND r.agent = $3 AND r.message_id = $4 AND r.fingerprint = $5
     AND r.created_at > clock_timestamp() - $6::double precision * interval '1 millisecond'`;

/**
 * The same for many messages at once, by the index for each (OFFSET 0), however many there are and were when it was
 * planned. $1 agent; lists of $2 tenants, $3 owners, $4 message ids, $5 hashes, $6 windows.
 */
export const allRepeatedStatement = ({ receipts, tasks }: ReceiptTables): string => `
  SELECT a.at::integer AS at, found.task_no AS "taskNo"
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::double precision[]) WITH ORDINALITY
         AS a(tenant, owner, message_id, fingerprint, window_ms, at)
   CROSS JOIN LATERAL (
     SELECT r.task_no
       FROM ${receipts} AS r JOIN ${tasks} AS t ON t.task_no = r.task_no
      WHERE r.tenant = a.tenant AND r.owner = a.owner AND r.agent = $1 AND r.message_id = a.message_id
        AND r.fingerprint = a.fingerprint
        AND r.created_at > clock_timestamp() - a.window_ms * interval '1 millisecond'
     OFFSET 0
   ) AS found`;

/** $1 ms, $2 limit. */
export const pruneReceiptsStatement = ({ receipts }: ReceiptTables): string => `
  WITH old AS MATERIALIZED (
    SELECT tenant, owner, agent, message_id, fingerprint
      FROM ${receipts}
     WHERE created_at < (SELECT clock_timestamp()) - $1::double precision * interval '1 millisecond'
     ORDER BY created_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM ${receipts} AS r USING old
     WHERE (r.tenant, r.owner, r.agent, r.message_id, r.fingerprint)
         = (old.tenant, old.owner, old.agent, old.message_id, old.fingerprint)
  )
  SELECT count(*)::integer AS pruned FROM old`;

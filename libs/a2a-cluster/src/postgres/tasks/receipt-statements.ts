import { Statement } from '../connection/statement.js';

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

/** Identifies a message: its owner, its id and its content. */
export interface ReceiptKey {
  tenant: string;
  owner: string;
  agent: string;
  messageId: string;
  fingerprint: string;
}

/** Several messages, a list for each column. */
interface AllReceipts {
  agent: string;
  tenants: string[];
  owners: string[];
  messageIds: string[];
  fingerprints: string[];
  windowsMs: number[];
}

/** The message of a follow-up, under its task's lock. */
export const rememberStatement = (
  tables: ReceiptTables,
): Statement<ReceiptKey & { windowMs: number; taskNo: number }> =>
  new Statement(`
  INSERT INTO ${tables.receipts} AS r (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
  VALUES ($tenant, $owner, $agent, $messageId, $fingerprint, $taskNo, clock_timestamp())
  ${takeOver('$windowMs')}`);

/** A receipt outlives a task that was deleted. */
export const forgetOrphanStatement = ({ receipts, tasks }: ReceiptTables): Statement<ReceiptKey> =>
  new Statement(`
  DELETE FROM ${receipts} AS r
   WHERE r.tenant = $tenant AND r.owner = $owner AND r.agent = $agent AND r.message_id = $messageId AND r.fingerprint = $fingerprint
     AND NOT EXISTS (SELECT FROM ${tasks} AS k WHERE k.task_no = r.task_no)`);

export const repeatedStatement = ({
  receipts,
  tasks,
}: ReceiptTables): Statement<ReceiptKey & { windowMs: number }, { taskNo: string }> =>
  new Statement(`
  SELECT r.task_no AS "taskNo"
    FROM ${receipts} AS r JOIN ${tasks} AS t ON t.task_no = r.task_no
   WHERE r.tenant = $tenant AND r.owner = $owner AND r.agent = $agent AND r.message_id = $messageId AND r.fingerprint = $fingerprint
     AND r.created_at > clock_timestamp() - $windowMs::double precision * interval '1 millisecond'`);

/**
 * The same for many messages at once, by the index for each (OFFSET 0), however many there are and were when it was
 * planned.
 */
export const allRepeatedStatement = ({
  receipts,
  tasks,
}: ReceiptTables): Statement<AllReceipts, { at: number; taskNo: string }> =>
  new Statement(`
  SELECT a.at::integer AS at, found.task_no AS "taskNo"
    FROM unnest($tenants::text[], $owners::text[], $messageIds::text[], $fingerprints::text[], $windowsMs::double precision[]) WITH ORDINALITY
         AS a(tenant, owner, message_id, fingerprint, window_ms, at)
   CROSS JOIN LATERAL (
     SELECT r.task_no
       FROM ${receipts} AS r JOIN ${tasks} AS t ON t.task_no = r.task_no
      WHERE r.tenant = a.tenant AND r.owner = a.owner AND r.agent = $agent AND r.message_id = a.message_id
        AND r.fingerprint = a.fingerprint
        AND r.created_at > clock_timestamp() - a.window_ms * interval '1 millisecond'
     OFFSET 0
   ) AS found`);

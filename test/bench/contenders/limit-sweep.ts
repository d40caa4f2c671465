import { withClient } from '../environment.js';

/** As many in a statement as the library's sweeper claims at once by default. */
const BATCH = 100;

/**
 * Ends all tasks whose leases have run out, a batch in one statement: their state, an event each, and the leases. Returns
 * how long it took, in ms.
 */
export function limitSweep(url: string, expected: number): Promise<number> {
  return withClient(url, async (client) => {
    let ended = 0;
    const begun = performance.now();
    for (let batch = BATCH; batch === BATCH; ended += batch) {
      const { rowCount } = await client.query({ name: 'end', text: END, values: [BATCH] });
      batch = rowCount ?? 0;
    }
    const tookMs = performance.now() - begun;
    if (ended !== expected) throw new Error(`${ended} of ${expected} tasks were ended`);
    return tookMs;
  });
}

const END = `
  WITH gone AS (
    DELETE FROM a2a_task_leases
     WHERE generation IN (SELECT generation FROM a2a_task_leases
                           WHERE expires_at <= clock_timestamp()
                           ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING task_no
  ), u AS (
    UPDATE a2a_tasks AS t
       SET version = version + 1, state = 'TASK_STATE_FAILED', state_since = clock_timestamp(),
           state_version = version + 1, snapshot = replace(snapshot, 'TASK_STATE_WORKING', 'TASK_STATE_FAILED'),
           snapshot_version = version + 1, updated_at = clock_timestamp()
      FROM gone WHERE t.task_no = gone.task_no
    RETURNING t.task_no, t.version, t.task_id, t.context_id
  )
  INSERT INTO a2a_task_events (task_no, version, event, commit_id)
  SELECT task_no, version,
         json_build_object('statusUpdate', json_build_object('taskId', task_id, 'contextId', context_id, 'status',
           json_build_object('state', 'TASK_STATE_FAILED', 'message', 'the replica is gone')))::text,
         gen_random_uuid()
    FROM u`;

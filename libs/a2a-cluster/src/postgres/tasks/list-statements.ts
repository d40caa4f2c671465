import type { TaskTables } from './task-statements.js';

/**
 * A page of tasks, newest status first; an unchanged task keeps its place between pages. It ends early with the task that
 * makes its bytes full, so that what comes behind is neither read nor sent; and what there is to read of a task is only
 * sent as far as all that is sent is no more than is to be read at once, so that room can be made for it first. Lengths
 * are known without reading the texts. Where heads will do, and a task has one of its version, its snapshot is not read.
 * $1 tenant, $2 owner, $3 agent, $4 context id or null, $5 state or null, $6 status after or null,
 * $7 and $8 the last row of the page before (microseconds of state_since, task_no) or null, $9 limit,
 * $10 bytes to read at once, $11 bytes of a page, $12 whether heads will do.
 */
export const listStatement = ({ tasks, events }: TaskTables): string => `
  SELECT p.task_no AS "taskNo", p.version, p.state_version AS "stateVersion", p.state, p.context_id AS "contextId",
         p.snapshot_version AS "snapshotVersion", p.size::double precision AS size, p.found::integer AS found,
         (extract(epoch FROM p.state_since) * 1000000)::bigint::text AS "stateSinceUs",
         CASE WHEN p.total <= $10::bigint AND p.by_head THEN p.head END AS head,
         CASE WHEN p.total <= $10::bigint AND NOT p.by_head THEN p.snapshot END AS snapshot,
         CASE WHEN p.total <= $10::bigint AND NOT p.by_head
              THEN (SELECT '[' || string_agg(e.event, ',' ORDER BY e.version) || ']' ${tailOf(events, 'p')}) END AS tail
    FROM (
      SELECT c.*, sum(c.size) OVER (ORDER BY c.state_since DESC, c.task_no DESC ROWS UNBOUNDED PRECEDING) AS total,
             count(*) OVER () AS found
        FROM (
          SELECT t.task_no, t.version, t.state_version, t.state, t.context_id, t.snapshot_version, t.state_since,
                 t.head, t.snapshot, h.by_head,
                 CASE WHEN h.by_head THEN octet_length(t.head)
                      ELSE octet_length(t.snapshot) + (SELECT coalesce(sum(octet_length(e.event)), 0) ${tailOf(events, 't')})
                 END AS size
            FROM ${tasks} AS t
                 CROSS JOIN LATERAL (SELECT $12::boolean AND t.head IS NOT NULL AND t.head_version = t.version) AS h (by_head)
           WHERE ${listFilter}
             AND ($7::bigint IS NULL
                  OR (t.state_since, t.task_no) < (timestamptz 'epoch' + $7::bigint * interval '1 microsecond', $8::bigint))
           ORDER BY t.state_since DESC, t.task_no DESC
           LIMIT $9
        ) AS c
    ) AS p
   WHERE p.total - p.size < $11::bigint
   ORDER BY p.state_since DESC, p.task_no DESC`;

/** The log behind a snapshot. */
const tailOf = (events: string, t: string): string => `FROM ${events} AS e
              WHERE e.task_no = ${t}.task_no AND e.version > ${t}.snapshot_version AND e.version <= ${t}.version`;

/** How many tasks match. Parameters $1 to $6 as above. */
export const countStatement = ({ tasks }: TaskTables): string => `
  SELECT count(*)::integer AS total FROM ${tasks} AS t WHERE ${listFilter}`;

const listFilter = `t.tenant = $1 AND t.owner = $2 AND t.agent = $3
     AND ($4::text IS NULL OR t.context_id = $4)
     AND ($5::text IS NULL OR t.state = $5)
     AND ($6::timestamptz IS NULL OR t.state_since > $6::timestamptz)`;

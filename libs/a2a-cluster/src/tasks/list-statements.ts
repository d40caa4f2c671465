import { storedTaskColumns, type TaskTables } from './task-statements.js';

/**
 * A page of tasks, newest status first; an unchanged task keeps its place between pages.
 * $1 tenant, $2 owner, $3 agent, $4 context id or null, $5 state or null, $6 status after or null,
 * $7 and $8 the last row of the page before (microseconds of state_since, task_no) or null, $9 limit.
 */
export const listStatement = (tables: TaskTables): string => `
  SELECT ${storedTaskColumns(tables, 't')}, (extract(epoch FROM t.state_since) * 1000000)::bigint::text AS "stateSinceUs"
    FROM ${tables.tasks} AS t
   WHERE ${listFilter}
     AND ($7::bigint IS NULL
          OR (t.state_since, t.task_no) < (timestamptz 'epoch' + $7::bigint * interval '1 microsecond', $8::bigint))
   ORDER BY t.state_since DESC, t.task_no DESC
   LIMIT $9`;

/** How many tasks match. Parameters $1 to $6 as above. */
export const countStatement = ({ tasks }: TaskTables): string => `
  SELECT count(*)::integer AS total FROM ${tasks} AS t WHERE ${listFilter}`;

const listFilter = `t.tenant = $1 AND t.owner = $2 AND t.agent = $3
     AND ($4::text IS NULL OR t.context_id = $4)
     AND ($5::text IS NULL OR t.state = $5)
     AND ($6::timestamptz IS NULL OR t.state_since > $6::timestamptz)`;

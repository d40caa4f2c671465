import { Statement } from '../connection/statement.js';
import type { TaskRow } from './task-rows.js';
import type { TaskTables } from './task-statements.js';

/** Selects a caller's tasks of one agent. A filter that is undefined selects everything. */
export interface ListParams {
  tenant: string;
  owner: string;
  agent: string;
  contextId: string | undefined;
  state: string | undefined;
  /** Only tasks whose status is younger than this: a time as ISO 8601 writes it. */
  statusAfter: string | undefined;
}

/** Selects a page of them. */
interface PageParams {
  /** The last row of the page before: its status in microseconds since 1970, and its number. */
  cursorUs: string | undefined;
  cursorTaskNo: string | undefined;
  limit: number;
  /** So many bytes are read at once. */
  bytesAtOnce: number;
  /** A page ends with the task that makes it so many bytes. */
  pageBytes: number;
  /** Whether heads will do. */
  byHead: boolean;
}

/** A task of a page: its head, or snapshot and tail, or neither where it was too much to be read at once. */
export interface ListedRow extends Omit<TaskRow, 'snapshot'> {
  snapshot: string | null;
  head: string | null;
  size: number;
  /** How many tasks there are from the page's first on, up to the limit. */
  found: number;
  stateSinceUs: string;
}

/**
 * A page of tasks, newest status first; an unchanged task keeps its place between pages. It ends early with the task that
 * makes its bytes full, so that what comes behind is neither read nor sent; and what there is to read of a task is only
 * sent as far as all that is sent is no more than is to be read at once, so that room can be made for it first. Lengths
 * are known without reading the texts. Where heads will do, and a task has one of its version, its snapshot is not read.
 */
export const listStatement = ({ tasks, events }: TaskTables): Statement<ListParams & PageParams, ListedRow> =>
  new Statement(`
  SELECT p.task_no AS "taskNo", p.version, p.state_version AS "stateVersion", p.state, p.context_id AS "contextId",
         p.snapshot_version AS "snapshotVersion", p.size::double precision AS size, p.found::integer AS found,
         (extract(epoch FROM p.state_since) * 1000000)::bigint::text AS "stateSinceUs",
         CASE WHEN p.total <= $bytesAtOnce::bigint AND p.by_head THEN p.head END AS head,
         CASE WHEN p.total <= $bytesAtOnce::bigint AND NOT p.by_head THEN p.snapshot END AS snapshot,
         CASE WHEN p.total <= $bytesAtOnce::bigint AND NOT p.by_head
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
                 CROSS JOIN LATERAL (SELECT $byHead::boolean AND t.head IS NOT NULL AND t.head_version = t.version) AS h (by_head)
           WHERE ${listFilter}
             AND ($cursorUs::bigint IS NULL
                  OR (t.state_since, t.task_no) < (timestamptz 'epoch' + $cursorUs::bigint * interval '1 microsecond', $cursorTaskNo::bigint))
           ORDER BY t.state_since DESC, t.task_no DESC
           LIMIT $limit
        ) AS c
    ) AS p
   WHERE p.total - p.size < $pageBytes::bigint
   ORDER BY p.state_since DESC, p.task_no DESC`);

/** The log behind a snapshot. */
const tailOf = (events: string, t: string): string => `FROM ${events} AS e
              WHERE e.task_no = ${t}.task_no AND e.version > ${t}.snapshot_version AND e.version <= ${t}.version`;

/** How many tasks match. Parameters */
export const countStatement = ({ tasks }: TaskTables): Statement<ListParams, { total: number }> =>
  new Statement(`
  SELECT count(*)::integer AS total FROM ${tasks} AS t WHERE ${listFilter}`);

const listFilter = `t.tenant = $tenant AND t.owner = $owner AND t.agent = $agent
     AND ($contextId::text IS NULL OR t.context_id = $contextId)
     AND ($state::text IS NULL OR t.state = $state)
     AND ($statusAfter::timestamptz IS NULL OR t.state_since > $statusAfter::timestamptz)`;

/**
 * Triggers of the run's own: what is written to the library's tables is written down again, in the same transaction, by
 * nothing of the library. Renewals, which change nothing but times, are left out.
 */
export const AUDIT_STATEMENTS: readonly string[] = [
  'CREATE SCHEMA chaos',
  `CREATE TABLE chaos.audit (
     seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     at timestamptz NOT NULL DEFAULT clock_timestamp(),
     txid text NOT NULL DEFAULT pg_current_xact_id()::text,
     source text NOT NULL,
     op text NOT NULL,
     task_no bigint NOT NULL,
     before jsonb,
     after jsonb
   )`,
  // The triggers run as whoever writes: the replicas' role.
  'GRANT USAGE ON SCHEMA chaos TO PUBLIC',
  'GRANT INSERT ON chaos.audit TO PUBLIC',
  // A lease runs out at its own time or, where that is later, at its holder's: a claim keeps the holder's row as it is.
  `CREATE FUNCTION chaos.lease(l a2a_task_leases) RETURNS jsonb LANGUAGE sql STABLE AS $$
     SELECT jsonb_build_object('generation', (l).generation, 'holder', (l).holder, 'attempt', (l).attempt,
       'kind', (l).kind, 'turnId', (l).turn_id, 'admittedVersion', (l).admitted_version, 'agent', (l).agent,
       'begun', (l).begun, 'claims', (l).claims, 'cancelRequested', (l).cancel_requested_at IS NOT NULL,
       'expiresAt', extract(epoch FROM greatest((l).expires_at, r.expires_at)) * 1000,
       'renewedAt', extract(epoch FROM greatest((l).renewed_at, r.renewed_at)) * 1000)
       FROM (VALUES (1)) AS one LEFT JOIN a2a_replicas AS r ON r.holder = (l).holder AND (l).follows_holder
   $$`,
  `CREATE FUNCTION chaos.on_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO chaos.audit (source, op, task_no, before, after)
     VALUES ('lease', lower(TG_OP), coalesce(NEW.task_no, OLD.task_no),
       CASE WHEN TG_OP <> 'INSERT' THEN chaos.lease(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN chaos.lease(NEW) END);
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER chaos_lease AFTER INSERT OR DELETE ON a2a_task_leases
     FOR EACH ROW EXECUTE FUNCTION chaos.on_lease()`,
  `CREATE TRIGGER chaos_lease_update AFTER UPDATE ON a2a_task_leases FOR EACH ROW
     WHEN ((OLD.generation, OLD.task_no, OLD.holder, OLD.attempt, OLD.begun, OLD.cancel_requested_at)
           IS DISTINCT FROM (NEW.generation, NEW.task_no, NEW.holder, NEW.attempt, NEW.begun, NEW.cancel_requested_at))
     EXECUTE FUNCTION chaos.on_lease()`,
  `CREATE FUNCTION chaos.on_event() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO chaos.audit (source, op, task_no, after)
     VALUES ('event', lower(TG_OP), coalesce(NEW.task_no, OLD.task_no),
       jsonb_build_object('version', coalesce(NEW.version, OLD.version)));
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER chaos_event AFTER INSERT OR UPDATE OR DELETE ON a2a_task_events
     FOR EACH ROW EXECUTE FUNCTION chaos.on_event()`,
  `CREATE FUNCTION chaos.on_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO chaos.audit (source, op, task_no, before, after)
     VALUES ('task', lower(TG_OP), coalesce(NEW.task_no, OLD.task_no),
       CASE WHEN TG_OP <> 'INSERT' THEN jsonb_build_object('version', OLD.version, 'state', OLD.state) END,
       CASE WHEN TG_OP <> 'DELETE' THEN jsonb_build_object('version', NEW.version, 'state', NEW.state) END);
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER chaos_task AFTER INSERT OR UPDATE OR DELETE ON a2a_tasks
     FOR EACH ROW EXECUTE FUNCTION chaos.on_task()`,
  `CREATE FUNCTION chaos.on_effect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO chaos.audit (source, op, task_no, after)
     VALUES ('effect', lower(TG_OP), coalesce(NEW.task_no, OLD.task_no),
       jsonb_build_object('key', coalesce(NEW.key, OLD.key), 'state', NEW.state, 'replay', NEW.replay,
         'turnId', coalesce(NEW.turn_id, OLD.turn_id), 'generation', NEW.generation, 'attempt', NEW.attempt));
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER chaos_effect AFTER INSERT OR UPDATE OR DELETE ON a2a_task_effects
     FOR EACH ROW EXECUTE FUNCTION chaos.on_effect()`,
  `CREATE FUNCTION chaos.on_push() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO chaos.audit (source, op, task_no, after)
     VALUES ('push', lower(TG_OP), coalesce(NEW.task_no, OLD.task_no),
       jsonb_build_object('configId', coalesce(NEW.config_id, OLD.config_id), 'delivered', NEW.delivered_version));
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER chaos_push AFTER INSERT OR DELETE ON a2a_push_configs
     FOR EACH ROW EXECUTE FUNCTION chaos.on_push()`,
];

export const TASKS = `
  SELECT task_no::int AS "taskNo", task_id AS "taskId", agent, owner, state, version, state_version AS "stateVersion",
         snapshot, snapshot_version AS "snapshotVersion"
    FROM a2a_tasks ORDER BY task_no`;

export const EVENTS = `
  SELECT task_no::int AS "taskNo", version, event, commit_id AS "commitId" FROM a2a_task_events ORDER BY task_no, version`;

export const LEASES = `
  SELECT task_no::int AS "taskNo", generation::int AS generation, holder, agent FROM a2a_task_leases`;

export const EFFECTS = `
  SELECT task_no::int AS "taskNo", turn_id AS "turnId", key, state, replay, attempt, generation::int AS generation
    FROM a2a_task_effects`;

export const PUSH_CONFIGS = `
  SELECT task_no::int AS "taskNo", config_id AS "configId", delivered_version AS delivered, failed
    FROM a2a_push_configs`;

export const DISPATCHES = `
  SELECT task_id AS "taskId", idempotency_key AS key FROM ledger.dispatch_attempts`;

export const ENTRIES = `
  SELECT task_id AS "taskId", idempotency_key AS key, account, amount FROM ledger.entries`;

export const AUDIT = `
  SELECT seq::int AS seq, extract(epoch FROM at)::float8 * 1000 AS at, txid, source, op, task_no::int AS "taskNo",
         before, after
    FROM chaos.audit ORDER BY seq`;

/** What still runs, is left over, or is behind: 0 when all is quiet. */
export const UNQUIET = `
  SELECT (SELECT count(*) FROM a2a_task_leases)::int AS leases,
         (SELECT count(*) FROM a2a_tasks WHERE state IN ('TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING'))::int AS running,
         (SELECT count(*) FROM a2a_push_configs AS p JOIN a2a_tasks AS t USING (task_no)
           WHERE p.failed IS NULL AND p.delivered_version < t.version)::int AS behind`;

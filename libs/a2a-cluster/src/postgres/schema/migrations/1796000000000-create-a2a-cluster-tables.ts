import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Table } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { quoted, tableNaming } from './table-naming.js';

type Columns = ConstructorParameters<typeof Table>[0];

const timestamp = { type: 'timestamp with time zone' } as const;
const now = { ...timestamp, default: 'clock_timestamp()' } as const;

/** The library's tables, in the DataSource's schema and with its entityPrefix. */
export class CreateA2AClusterTables1796000000000 implements MigrationInterface {
  readonly name = 'CreateA2AClusterTables1796000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, createTables);
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, dropTables);
  }
}

async function createTables(queryRunner: QueryRunner): Promise<void> {
  const named = tableNaming(queryRunner.connection);
  for (const table of TABLES) await queryRunner.createTable(new Table({ ...table, name: named(table.name ?? '') }));
  // The row of a replica is updated many times a minute: with room beside it on its page these are heap-only updates.
  await queryRunner.query(`ALTER TABLE ${quoted(queryRunner, named('a2a_replicas'))} SET (fillfactor = 10)`);
}

async function dropTables(queryRunner: QueryRunner): Promise<void> {
  const named = tableNaming(queryRunner.connection);
  for (const table of [...TABLES].reverse()) await queryRunner.dropTable(named(table.name ?? ''));
}

const TABLES: NonNullable<Columns>[] = [
  {
    name: 'a2a_tasks',
    columns: [
      { name: 'task_no', type: 'bigint', isPrimary: true, ...identity() },
      { name: 'tenant', type: 'text' },
      { name: 'owner', type: 'text' },
      { name: 'task_id', type: 'text' },
      { name: 'agent', type: 'text' },
      { name: 'context_id', type: 'text' },
      { name: 'state', type: 'text' },
      { name: 'state_since', ...timestamp },
      { name: 'state_version', type: 'integer' },
      { name: 'version', type: 'integer' },
      { name: 'snapshot', type: 'text' },
      { name: 'snapshot_version', type: 'integer' },
      { name: 'head', type: 'text', isNullable: true },
      { name: 'head_version', type: 'integer', isNullable: true },
      { name: 'created_at', ...now },
      { name: 'updated_at', ...now },
    ],
    // By its id first a task is found at the same cost however many its owner has, and whatever statistics there are.
    uniques: [{ columnNames: ['task_id', 'tenant', 'owner'] }],
    indices: [
      { columnNames: ['tenant', 'owner', 'agent', 'state_since', 'task_no'] },
      { columnNames: ['tenant', 'owner', 'agent', 'context_id', 'state_since', 'task_no'] },
      { columnNames: ['tenant', 'owner', 'agent', 'state', 'state_since', 'task_no'] },
      // Tasks that wait for their clients, for `interruptedTaskTimeoutMs`.
      {
        columnNames: ['agent', 'state_since'],
        where: "state IN ('TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED')",
      },
      // Tasks that have ended, for retention.
      {
        columnNames: ['agent', 'state_since'],
        where: `state IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED')`,
      },
      // Tasks that run: a replica that starts looks for those without a lease.
      {
        columnNames: ['agent', 'state_since'],
        where:
          "state NOT IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED', " +
          "'TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED')",
      },
    ],
  },
  {
    name: 'a2a_task_events',
    columns: [
      { name: 'task_no', type: 'bigint', isPrimary: true },
      { name: 'version', type: 'integer', isPrimary: true },
      { name: 'event', type: 'text' },
      { name: 'commit_id', type: 'uuid' },
      { name: 'created_at', ...now },
    ],
    indices: [{ columnNames: ['created_at'] }],
  },
  {
    name: 'a2a_task_leases',
    columns: [
      { name: 'generation', type: 'bigint', isPrimary: true, ...identity() },
      { name: 'task_no', type: 'bigint' },
      { name: 'agent', type: 'text' },
      { name: 'kind', type: 'text' },
      { name: 'turn_id', type: 'uuid' },
      { name: 'admitted_version', type: 'integer' },
      { name: 'holder', type: 'text', isNullable: true },
      { name: 'attempt', type: 'integer' },
      { name: 'expires_at', ...timestamp },
      { name: 'acquired_at', ...now },
      { name: 'renewed_at', ...now },
      { name: 'follows_holder', type: 'boolean', default: 'false' },
      { name: 'begun', type: 'boolean', default: 'true' },
      { name: 'claims', type: 'integer', default: '0' },
      { name: 'cancel_requested_at', ...timestamp, isNullable: true },
      { name: 'request', type: 'text', isNullable: true },
      { name: 'context', type: 'text' },
    ],
    uniques: [{ columnNames: ['task_no'] }],
  },
  {
    name: 'a2a_replicas',
    columns: [
      { name: 'holder', type: 'text', isPrimary: true },
      { name: 'started_at', ...now },
      { name: 'renewed_at', ...now },
      { name: 'expires_at', ...timestamp },
      { name: 'lapses', type: 'integer', default: '0' },
    ],
  },
  {
    name: 'a2a_task_effects',
    columns: [
      { name: 'task_no', type: 'bigint', isPrimary: true },
      { name: 'turn_id', type: 'uuid', isPrimary: true },
      { name: 'key', type: 'text', isPrimary: true },
      { name: 'state', type: 'text' },
      { name: 'replay', type: 'text' },
      { name: 'attempt', type: 'integer' },
      { name: 'generation', type: 'bigint' },
      { name: 'result', type: 'text', isNullable: true },
      { name: 'dispatched_at', ...now },
      { name: 'settled_at', ...timestamp, isNullable: true },
    ],
    indices: [{ columnNames: ['dispatched_at'] }],
  },
  {
    name: 'a2a_message_receipts',
    columns: [
      { name: 'tenant', type: 'text', isPrimary: true },
      { name: 'owner', type: 'text', isPrimary: true },
      { name: 'agent', type: 'text', isPrimary: true },
      { name: 'message_id', type: 'text', isPrimary: true },
      { name: 'fingerprint', type: 'text', isPrimary: true },
      { name: 'task_no', type: 'bigint' },
      { name: 'created_at', ...now },
    ],
    indices: [{ columnNames: ['created_at'] }],
  },
  {
    name: 'a2a_push_configs',
    columns: [
      { name: 'task_no', type: 'bigint', isPrimary: true },
      { name: 'config_id', type: 'text', isPrimary: true },
      { name: 'config', type: 'text' },
      { name: 'wire_version', type: 'text' },
      { name: 'delivered_version', type: 'integer' },
      { name: 'claimed_until', ...timestamp, isNullable: true },
      { name: 'attempts', type: 'integer', default: '0' },
      { name: 'failed', type: 'text', isNullable: true },
    ],
    // Dispatchers look for receivers that are due, and not for those that were given up.
    indices: [{ columnNames: ['claimed_until'], where: 'failed IS NULL' }],
  },
];

/** GENERATED ALWAYS AS IDENTITY: nobody can write a value of their own, and the sequence caches none. */
function identity() {
  return { isGenerated: true, generationStrategy: 'identity', generatedIdentity: 'ALWAYS' } as const;
}

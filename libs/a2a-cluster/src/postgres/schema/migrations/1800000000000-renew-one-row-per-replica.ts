import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Table, TableColumn } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { quoted, tableNaming } from './table-naming.js';

const timestamp = { type: 'timestamp with time zone' } as const;
const now = { ...timestamp, default: 'clock_timestamp()' } as const;

const REPLICAS = {
  name: 'a2a_replicas',
  columns: [
    { name: 'holder', type: 'text', isPrimary: true },
    { name: 'started_at', ...now },
    { name: 'renewed_at', ...now },
    { name: 'expires_at', ...timestamp },
    { name: 'lapses', type: 'integer', default: '0' },
  ],
};

const OF_LEASES = [
  { name: 'follows_holder', type: 'boolean', default: 'false' },
  { name: 'begun', type: 'boolean', default: 'true' },
  { name: 'claims', type: 'integer', default: '0' },
];

/**
 * A replica renews its own row, and its leases live as long as that. The defaults fit what is there: such a lease runs out
 * at its own time, and its holder's run has begun.
 */
export class RenewOneRowPerReplica1800000000000 implements MigrationInterface {
  readonly name = 'RenewOneRowPerReplica1800000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, addReplicas);
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, dropReplicas);
  }
}

async function addReplicas(queryRunner: QueryRunner): Promise<void> {
  const named = tableNaming(queryRunner.connection);
  const replicas = named(REPLICAS.name);
  await queryRunner.createTable(new Table({ ...REPLICAS, name: replicas }));
  // A row is updated many times a minute: with room beside it on its page these are heap-only updates.
  await queryRunner.query(`ALTER TABLE ${quoted(queryRunner, replicas)} SET (fillfactor = 10)`);
  const leases = named('a2a_task_leases');
  await queryRunner.addColumns(
    leases,
    OF_LEASES.map((column) => new TableColumn(column)),
  );
  // Renewals do not update them any more.
  await queryRunner.query(`ALTER TABLE ${quoted(queryRunner, leases)} RESET (fillfactor)`);
}

async function dropReplicas(queryRunner: QueryRunner): Promise<void> {
  const named = tableNaming(queryRunner.connection);
  const leases = named('a2a_task_leases');
  await queryRunner.query(`ALTER TABLE ${quoted(queryRunner, leases)} SET (fillfactor = 50)`);
  await queryRunner.dropColumns(
    leases,
    OF_LEASES.map(({ name }) => name),
  );
  await queryRunner.dropTable(named(REPLICAS.name));
}

import type { MigrationInterface, QueryRunner } from 'typeorm';
import { TableIndex } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { tableNaming } from './table-naming.js';

const INDEX = { columnNames: ['claimed_until'], where: 'failed IS NULL' };

/** Dispatchers look for receivers that are due: those that are through, or given up, are none of their business. */
export class IndexPushReceiversThatAreDue1797000000000 implements MigrationInterface {
  readonly name = 'IndexPushReceiversThatAreDue1797000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, createIndex);
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, dropIndex);
  }
}

function createIndex(queryRunner: QueryRunner): Promise<void> {
  return queryRunner.createIndex(tableNaming(queryRunner.connection)('a2a_push_configs'), new TableIndex(INDEX));
}

async function dropIndex(queryRunner: QueryRunner): Promise<void> {
  const name = tableNaming(queryRunner.connection)('a2a_push_configs');
  const table = await queryRunner.getTable(name);
  const index = table?.indices.find(({ columnNames }) => columnNames.join() === INDEX.columnNames.join());
  if (index) await queryRunner.dropIndex(name, index);
}

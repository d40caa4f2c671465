import type { MigrationInterface, QueryRunner } from 'typeorm';
import { TableIndex } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { tableNaming } from './table-naming.js';

const INDICES = [
  { table: 'a2a_task_effects', columnNames: ['dispatched_at'], where: '' },
  {
    table: 'a2a_tasks',
    columnNames: ['agent', 'state_since'],
    where: `state IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED')`,
  },
];

/** Retention looks for the oldest effects, and for the tasks that ended first. */
export class IndexWhatIsPruned1798000000000 implements MigrationInterface {
  readonly name = 'IndexWhatIsPruned1798000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, createIndices);
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, dropIndices);
  }
}

async function createIndices(queryRunner: QueryRunner): Promise<void> {
  const named = tableNaming(queryRunner.connection);
  for (const { table, columnNames, where } of INDICES) {
    await queryRunner.createIndex(named(table), new TableIndex({ columnNames, ...(where && { where }) }));
  }
}

async function dropIndices(queryRunner: QueryRunner): Promise<void> {
  const { namingStrategy } = queryRunner.connection;
  const named = tableNaming(queryRunner.connection);
  for (const { table, columnNames, where } of INDICES) {
    await queryRunner.dropIndex(named(table), namingStrategy.indexName(named(table), columnNames, where || undefined));
  }
}

import type { DataSource, ObjectLiteral, ObjectType } from 'typeorm';
import { EffectEntity } from './entities/effect.entity.js';
import { LeaseEntity } from './entities/lease.entity.js';
import { MessageReceiptEntity } from './entities/message-receipt.entity.js';
import { PushConfigEntity } from './entities/push-config.entity.js';
import { ReplicaEntity } from './entities/replica.entity.js';
import { TaskEventEntity } from './entities/task-event.entity.js';
import { TaskEntity } from './entities/task.entity.js';

/** The name of an entity's table as it stands in SQL: quoted, with the DataSource's schema and entityPrefix. */
export function sqlName(dataSource: DataSource, entity: ObjectType<ObjectLiteral>): string {
  return dataSource
    .getMetadata(entity)
    .tablePath.split('.')
    .map((part) => dataSource.driver.escape(part))
    .join('.');
}

/** The library's tables, as statements name them. */
export const tablesOf = (dataSource: DataSource) => ({
  tasks: sqlName(dataSource, TaskEntity),
  events: sqlName(dataSource, TaskEventEntity),
  leases: sqlName(dataSource, LeaseEntity),
  replicas: sqlName(dataSource, ReplicaEntity),
  pushConfigs: sqlName(dataSource, PushConfigEntity),
  receipts: sqlName(dataSource, MessageReceiptEntity),
  effects: sqlName(dataSource, EffectEntity),
});

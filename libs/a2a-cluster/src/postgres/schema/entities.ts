import { CreateA2AClusterTables1796000000000 } from './migrations/1796000000000-create-a2a-cluster-tables.js';
import { EffectEntity } from './entities/effect.entity.js';
import { LeaseEntity } from './entities/lease.entity.js';
import { ReplicaEntity } from './entities/replica.entity.js';
import { PushConfigEntity } from './entities/push-config.entity.js';
import { MessageReceiptEntity } from './entities/message-receipt.entity.js';
import { TaskEventEntity } from './entities/task-event.entity.js';
import { TaskEntity } from './entities/task.entity.js';

/** The library's entities, for `entities` of the app's DataSource. */
export const A2A_CLUSTER_ENTITIES = [
  TaskEntity,
  TaskEventEntity,
  LeaseEntity,
  ReplicaEntity,
  EffectEntity,
  MessageReceiptEntity,
  PushConfigEntity,
];

/** The library's migrations, for `migrations` of the app's DataSource. */
export const A2A_CLUSTER_MIGRATIONS = [CreateA2AClusterTables1796000000000];

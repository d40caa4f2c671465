import { CreateA2AClusterTables1796000000000 } from './migrations/1796000000000-create-a2a-cluster-tables.js';
import { IndexPushReceiversThatAreDue1797000000000 } from './migrations/1797000000000-index-push-receivers-that-are-due.js';
import { IndexWhatIsPruned1798000000000 } from './migrations/1798000000000-index-what-is-pruned.js';
import { FindTasksByTheirId1799000000000 } from './migrations/1799000000000-find-tasks-by-their-id.js';
import { RenewOneRowPerReplica1800000000000 } from './migrations/1800000000000-renew-one-row-per-replica.js';
import { AddTaskHeads1801000000000 } from './migrations/1801000000000-add-task-heads.js';
import { IndexRunningTasks1802000000000 } from './migrations/1802000000000-index-running-tasks.js';
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
export const A2A_CLUSTER_MIGRATIONS = [
  CreateA2AClusterTables1796000000000,
  IndexPushReceiversThatAreDue1797000000000,
  IndexWhatIsPruned1798000000000,
  FindTasksByTheirId1799000000000,
  RenewOneRowPerReplica1800000000000,
  AddTaskHeads1801000000000,
  IndexRunningTasks1802000000000,
];

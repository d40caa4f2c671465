/** The five ports of the library, and the types of their methods, for apps that replace a store or call one. */
export {
  type Admission,
  type AdmitOptions,
  type AppendOptions,
  type CancelRequest,
  type CreatedTask,
  type CreateOptions,
  type FoundTask,
  type LargeTask,
  type MakeRoom,
  type MessageReceipt,
  type PushReceiver,
  type StoredTask,
  type TaskPosition,
  type TaskScope,
  type TaskText,
  VersionedTaskStore,
  type WriteOptions,
} from '../tasks/task-store.js';
export type { StoredLength } from '../tasks/snapshot-pace.js';
export type { Metadata, TaskEvent, VersionedTaskEvent } from '../tasks/task-event.js';
export {
  type ClaimedLease,
  type ClaimRequest,
  type LeaseRequest,
  LeaseStore,
  type RenewedLease,
  type TurnKind,
} from '../leases/lease-store.js';
export { type HeldLeaseInfo, SeparateLeaseStore } from '../leases/separate-lease-store.js';
export { TaskEventStream, type WakeupListener } from '../streams/task-event-stream.js';
export {
  type Dispatch,
  type EffectRequest,
  EffectStore,
  type EffectTurn,
  type RecordedEffect,
  type ReplayContract,
  type Settlement,
} from '../effects/effect-store.js';
export {
  type ClaimedPush,
  type PushClaimRequest,
  type PushConfigPage,
  PushConfigStore,
  type PushProgress,
  type PushRegistration,
} from '../push/push-config-store.js';
export { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
export { EventLogGapError } from '../errors/event-log-gap.error.js';
export { MessageRepeatedError } from '../errors/message-repeated.error.js';
export { LeaseLostError } from '../errors/lease-lost.error.js';
export { StoreUnavailableError } from '../errors/store-unavailable.error.js';

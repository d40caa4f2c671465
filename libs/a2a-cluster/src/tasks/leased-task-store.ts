import { VersionedTaskStore } from './task-store.js';

/**
 * The task store with the leases about it, which all turns use. The same as the {@link VersionedTaskStore} or around
 * it.
 */
export abstract class LeasedTaskStore extends VersionedTaskStore {}

/** Something that is done at every sweep, and stops when what it has begun is done. */
export interface Sweeper {
  /** Whether it has anything to do on this replica. */
  readonly isOn: boolean;
  runOnce(): Promise<unknown>;
  stop(): Promise<void>;
  /** Monotonic time at which it has something to do for certain: the next sweep comes no later. */
  readonly nextDueAt?: number;
  /** Registers for whenever that may have come nearer. */
  onDue?(listener: () => void): void;
}

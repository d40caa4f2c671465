/** This replica shuts down and takes no new turns: another one will (HTTP 503 with Retry-After). */
export class ReplicaDrainingError extends Error {
  override readonly name = 'ReplicaDrainingError';
  readonly code = 'A2A_REPLICA_DRAINING';

  constructor() {
    super('This replica is shutting down and takes no new messages; send it again to another replica.');
  }
}

import type { Client } from 'pg';

/** How long the request to cancel may take, in ms: what it is for is bounded by the server as well. */
const CANCEL_MS = 2_000;

/** The parts of pg's client that a cancel request needs; pg's types leave them out. */
interface Cancelable {
  readonly processID?: number | null;
  readonly secretKey?: number | null;
  readonly host: string;
  readonly port: number;
}

interface CancelConnection {
  readonly ssl: unknown;
  readonly sslNegotiation?: string;
  readonly stream: { destroy(): void };
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
  on(event: 'connect' | 'sslconnect' | 'end' | 'error', listener: () => void): void;
}

/**
 * Asks the server to stop what the backend of this client is doing: a backend that waits for a lock does not notice that
 * its client is gone, and keeps its place among the server's connections. The protocol has a request of its own for that,
 * which takes no such place. The client must not be used again. Never fails: the server's own limits end it otherwise.
 * @param make makes another client with the same settings
 */
export function cancelBackend(client: object, make: () => Client): void {
  const { processID, secretKey, host, port } = client as Cancelable;
  if (!processID || !secretKey) return;
  const connection = connectionOf(make);
  if (!connection) return;
  const end = (): void => {
    clearTimeout(timer);
    connection.stream.destroy();
  };
  const timer = setTimeout(end, CANCEL_MS);
  timer.unref();
  const cancel = (): void => connection.cancel(processID, secretKey);
  const asksForTls = Boolean(connection.ssl);
  connection.on('connect', () => {
    if (!asksForTls) cancel();
    else if (connection.sslNegotiation !== 'direct') connection.requestSsl();
  });
  connection.on('sslconnect', cancel);
  connection.on('error', end);
  connection.on('end', end);
  if (host?.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`);
  else connection.connect(port, host);
}

/** Making a client reads the certificates that its settings name, which may be gone. */
function connectionOf(make: () => Client): CancelConnection | undefined {
  try {
    return (make() as unknown as { connection?: CancelConnection }).connection;
  } catch {
    return undefined;
  }
}

import { connect, type Socket } from 'node:net';
import { onCleanUp } from './clean-up.js';

/** What is asked over HTTP. */
export interface HttpQuestion {
  path: string;
  /** Default: GET, or POST where there is a body. */
  method?: 'GET' | 'POST';
  /** JSON. */
  body?: string;
}

/** A subscription to a task, as each transport puts it. */
export const SUBSCRIPTIONS: Record<'JSONRPC' | 'HTTP+JSON', (taskId: string) => HttpQuestion> = {
  JSONRPC: (taskId) => ({
    path: '/a2a/jsonrpc',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id: taskId } }),
  }),
  'HTTP+JSON': (taskId) => ({ path: `/a2a/rest/tasks/${taskId}:subscribe`, method: 'POST' }),
};

/** Asks over a socket of which nothing is read before the test does: TCP holds back what it does not take ahead. */
export function unreadHttp(
  url: string,
  { path, body = '', method = body === '' ? 'GET' : 'POST' }: HttpQuestion,
): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  socket.once(
    'close',
    onCleanUp(() => void socket.destroy()),
  );
  const head = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    'A2A-Version: 1.0',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  return socket.pause();
}

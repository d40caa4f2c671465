/** Good requests as JSON, of which the fuzz tests make others. */

const messageOf = (taskId: string, text: string): object => ({
  messageId: 'm1',
  contextId: '',
  taskId,
  role: 'ROLE_USER',
  referenceTaskIds: ['some-task'],
  parts: [{ text, metadata: { key: ['value'] } }, { data: { list: [1, 'two'] } }, { raw: 'aGVsbG8=' }],
  metadata: { from: 'fuzz' },
  extensions: ['https://example.com/x'],
});

export const sending = (taskId: string): object => ({
  tenant: '',
  message: messageOf(taskId, 'ask'),
  configuration: {
    acceptedOutputModes: ['text/plain'],
    historyLength: 3,
    returnImmediately: false,
    taskPushNotificationConfig: receiver(taskId),
  },
  metadata: { nested: { key: 1 } },
});

export const receiver = (taskId: string): object => ({
  id: 'hook',
  taskId,
  url: 'https://203.0.113.7/hook',
  token: 'secret',
  authentication: { scheme: 'Bearer', credentials: 'secret' },
});

export const LISTING = {
  tenant: '',
  contextId: 'c',
  status: 'TASK_STATE_WORKING',
  pageSize: 5,
  pageToken: 'x',
  historyLength: 1,
  statusTimestampAfter: '2026-01-01T00:00:00Z',
  includeArtifacts: true,
};

/** Good parameters of every method. */
export const CALLS: Record<string, (id: string) => object> = {
  SendMessage: sending,
  SendStreamingMessage: sending,
  GetTask: (id) => ({ tenant: '', id, historyLength: 2 }),
  ListTasks: () => LISTING,
  CancelTask: (id) => ({ tenant: '', id, metadata: { why: 'fuzz' } }),
  SubscribeToTask: (id) => ({ tenant: '', id }),
  CreateTaskPushNotificationConfig: (id) => receiver(id),
  GetTaskPushNotificationConfig: (taskId) => ({ tenant: '', taskId, id: 'hook' }),
  ListTaskPushNotificationConfigs: (taskId) => ({ tenant: '', taskId, pageSize: 1, pageToken: '' }),
  DeleteTaskPushNotificationConfig: (taskId) => ({ tenant: '', taskId, id: 'hook' }),
  GetExtendedAgentCard: () => ({ tenant: '' }),
};

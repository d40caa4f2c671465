import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');

describe('The package', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'a2a-pack-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('npm pack gives one that imports as it is published, with types, licence, README and what that links to', async () => {
    const library = join(root, 'libs/a2a-cluster');
    const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts=false', '--pack-destination', folder], {
      cwd: library,
    });
    const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    const paths = files.map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']));
    expect(paths.filter((path) => path.includes('.spec.') || path.startsWith('src'))).toEqual([]);
    const readme = await readFile(join(library, 'README.md'), 'utf8');
    const linked = [...readme.matchAll(/\]\((?!https:)([^)#]+)/g)].map(([, path]) => path);
    expect(paths).toEqual(expect.arrayContaining(linked));
    await run('tar', ['xzf', filename], { cwd: folder });
    await linkPeers(join(folder, 'node_modules'));
    await symlink(join(folder, 'package'), join(folder, 'node_modules/nestjs-a2a-cluster'));
    const printed = await printedBy(`
      import { A2AClusterModule, A2A_CLUSTER_ENTITIES } from 'nestjs-a2a-cluster';
      import { inMemoryStores } from 'nestjs-a2a-cluster/testing';
      console.log(A2AClusterModule.name, A2A_CLUSTER_ENTITIES.length > 0, inMemoryStores().length > 0);`);
    expect(printed).toBe('A2AClusterModule true true\n');
    await access(join(folder, 'package/dist/testing/index.d.ts'));
  });

  it('boots without the packages that gRPC needs, and says which they are where gRPC is on', async () => {
    const printed = await printedBy(`
      import { NestFactory } from '@nestjs/core';
      import { ScheduleModule } from '@nestjs/schedule';
      import { A2AClusterModule } from 'nestjs-a2a-cluster';
      import { inMemoryStores } from 'nestjs-a2a-cluster/testing';
      for (const grpc of [false, { port: 0 }]) {
        const agent = A2AClusterModule.forRoot({
          executor: class Agent { async execute() {} async cancelTask() {} },
          agentCard: { name: 'agent', description: '', version: '1' },
          publicUrl: 'https://agent.example.com', extraProviders: inMemoryStores(), grpc,
        });
        const app = { module: class App {}, imports: [ScheduleModule.forRoot(), agent] };
        await NestFactory.createApplicationContext(app, { logger: false, abortOnError: false }).then(
          async (context) => (console.log('booted'), context.close()),
          (error) => console.log(error.message),
        );
      }`);
    expect(printed).toBe(
      'booted\nA2AClusterModule option grpc is given, and its packages are not installed: ' +
        'npm install @grpc/grpc-js @bufbuild/protobuf, or set grpc to false.\n',
    );
  });

  /** What a script prints that is an app's. */
  async function printedBy(script: string): Promise<string> {
    const flags = ['--preserve-symlinks', '--input-type=module', '-e', `import 'reflect-metadata';${script}`];
    return (await run(process.execPath, flags, { cwd: folder, env: { PATH: process.env.PATH } })).stdout;
  }

  /** What an app has beside the package, without what is optional. */
  async function linkPeers(modules: string): Promise<void> {
    await mkdir(modules);
    for (const name of await readdir(join(root, 'node_modules'))) {
      if (['nestjs-a2a-cluster', '@grpc', '@bufbuild'].includes(name) || name.startsWith('.')) continue;
      await symlink(join(root, 'node_modules', name), join(modules, name));
    }
  }
});

import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
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

  it('npm pack gives one that imports as it is published, with types, README and licence', async () => {
    const library = join(root, 'libs/a2a-cluster');
    const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts=false', '--pack-destination', folder], {
      cwd: library,
    });
    const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    const paths = files.map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']));
    expect(paths.filter((path) => path.includes('.spec.') || path.startsWith('src'))).toEqual([]);
    await run('tar', ['xzf', filename], { cwd: folder });
    await linkPeers(join(folder, 'node_modules'));
    await symlink(join(folder, 'package'), join(folder, 'node_modules/nestjs-a2a-cluster'));
    const script = `
      import 'reflect-metadata';
      import { A2AClusterModule, A2A_CLUSTER_ENTITIES } from 'nestjs-a2a-cluster';
      import { inMemoryStores } from 'nestjs-a2a-cluster/testing';
      console.log(A2AClusterModule.name, A2A_CLUSTER_ENTITIES.length > 0, inMemoryStores().length > 0);`;
    const options = { cwd: folder, env: { PATH: process.env.PATH } };
    const flags = ['--preserve-symlinks', '--input-type=module', '-e', script];
    expect((await run(process.execPath, flags, options)).stdout).toBe('A2AClusterModule true true\n');
    await access(join(folder, 'package/dist/testing/index.d.ts'));
  });

  /** What an app has beside the package. */
  async function linkPeers(modules: string): Promise<void> {
    await mkdir(modules);
    for (const name of await readdir(join(root, 'node_modules'))) {
      if (name === 'nestjs-a2a-cluster' || name.startsWith('.')) continue;
      await symlink(join(root, 'node_modules', name), join(modules, name));
    }
  }
});

"""What `dvc push` brings to a remote, `dvc pull` brings back to a clone without cache or results: a folder, and a server that speaks S3."""
import logging
import shutil

import boto3
import pytest
from conftest import call
from dvc.repo import Repo
from moto.server import ThreadedMotoServer
from test_dvc import files

KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"}


def push_forget_pull(project, **environment):
    """Push, delete the cache, the saved trainings and all that DVC keeps, and pull: what lay there before, and what lies there now."""
    before = files(project)
    kept = [out.fs_path for out in Repo(str(project)).index.outs if out.use_cache]
    call("dvc", "push", cwd=project, **environment)
    for path in (project / ".dvc/cache", project / ".resume"):
        shutil.rmtree(path)
    for path in map(project.joinpath, kept):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert any("models" in name for name in before) and not any("models" in name for name in files(project))
    call("dvc", "pull", cwd=project, **environment)
    return before, files(project)


def test_a_folder_as_remote_gives_back_the_same_bytes(clone, tmp_path):
    call("dvc", "remote", "add", "--default", "store", str(tmp_path / "a folder"), cwd=clone)
    before, after = push_forget_pull(clone)
    assert before == after
    assert "up to date" in call("dvc", "status", cwd=clone).stdout


def test_the_reference_encoder_is_fetched_by_name_and_version_without_a_clone(clone, tmp_path):
    call("dvc", "remote", "add", "--default", "store", str(tmp_path / "store"), cwd=clone)
    call("git", "commit", "-qam", "remote", cwd=clone)
    call("dvc", "push", "models/simclr_swap", cwd=clone)
    call("gto", "register", "reference-encoder", "--version", "v1.0.0", cwd=clone)
    call("dvc", "artifacts", "get", str(clone), "reference-encoder", "--out", "encoder", cwd=tmp_path)
    assert files(tmp_path / "encoder") == files(clone / "models/simclr_swap")


@pytest.fixture
def server():
    """Address of an S3 server on this machine with an empty bucket `shared`."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it tells every request
    threaded = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded.start()
    host, port = threaded.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=address, aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1")
    client.create_bucket(Bucket="shared")
    yield address
    threaded.stop()


def test_s3_as_remote_gives_back_the_same_bytes(clone, server):
    call("dvc", "remote", "add", "--default", "store", "s3://shared/twoviews", cwd=clone)
    call("dvc", "remote", "modify", "store", "endpointurl", server, cwd=clone)
    before, after = push_forget_pull(clone, **KEYS)
    assert before == after
    assert "up to date" in call("dvc", "status", cwd=clone).stdout

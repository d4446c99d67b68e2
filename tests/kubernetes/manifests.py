"""Check the manifests of packaging/kubernetes by the schemas of Kubernetes, which PyPI's kubernetes-validate has."""
import copy
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import expect, main  # noqa: E402
from pypi import python_with  # noqa: E402

MANIFESTS = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "kubernetes"
VERSIONS = ("1.25", "1.30", "1.37")  # of Kubernetes; for a later one than the package knows, the latest that it knows
TRAINING = ("job.yaml", "kueue-job.yaml", "pytorchjob.yaml")


def need_schemas():
    """Go on in a Python that has the schemas and PyYAML, or end the test as skipped."""
    try:
        import kubernetes_validate  # noqa: F401
        import yaml  # noqa: F401
    except ImportError:
        python = python_with(["kubernetes-validate"], "kubernetes", ["kubernetes_validate", "yaml"])
        os.execv(python, [python, "-B", *sys.argv])


def load(path):
    """Return the documents of a file. A key that is given twice is an error."""
    import yaml

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = [key.value for key, _ in node.value]
            if len(set(keys)) != len(keys):
                raise yaml.constructor.ConstructorError(None, None, f"a key is given twice: {keys}", node.start_mark)
            return super().construct_mapping(node, deep)
    return list(yaml.load_all(path.read_text(), Strict))


def pod_templates(document):
    spec = document["spec"]
    if document["kind"] == "PyTorchJob":
        return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
    return [spec["template"]]


def problem(document, version):
    """Return what the schemas reject, or None. Kubernetes has no schema of a PyTorchJob, but of its pods."""
    import kubernetes_validate as known
    documents = [document]
    if document["kind"] == "PyTorchJob":
        documents = [{"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}
                     for template in pod_templates(document)]
    version = min(version, known.latest_version(), key=lambda text: [int(part) for part in text.split(".")])
    for one in documents:
        try:
            known.validate(one, version, strict=True)
        except known.ValidationError as error:
            return f"{'.'.join(map(str, error.path))}: {error.message}"
    return None


def each_manifest_is_valid():
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for document in load(path):
            for version in VERSIONS:
                found = problem(document, version)
                expect(found is None, f"{path.name}, Kubernetes {version}: {found}")
            broken_ones_are_rejected(path.name, document)
        print(f"valid: {path.name}")


def broken_ones_are_rejected(name, document):
    def misspelt(pod):
        pod["containers"][0]["comand"] = pod["containers"][0].pop("command")

    def wrong_type(pod):
        pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = "yes"

    def missing(pod):
        del pod["containers"][0]["name"]
    for change in (misspelt, wrong_type, missing):
        broken = copy.deepcopy(document)
        change(pod_templates(broken)[0]["spec"])
        expect(problem(broken, VERSIONS[-1]) is not None, f"{name}: accepted although {change.__name__}")


def pods_are_restricted():
    """Every container runs without root, without privileges, and with a root folder that cannot be written."""
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for template in (template for document in load(path) for template in pod_templates(document)):
            pod = template["spec"]
            expect(pod["securityContext"]["runAsNonRoot"] is True, path.name)
            expect(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", path.name)
            for container in pod.get("initContainers", []) + pod["containers"]:
                context = container["securityContext"]
                expect(context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                   "capabilities": {"drop": ["ALL"]}}, f"{path.name}: {container['name']}: {context}")
            expect(not any("hostPath" in volume for volume in pod.get("volumes", [])), f"{path.name}: hostPath")


def parts_of_gpuwhy(pod):
    container = pod["containers"][0]
    return {"initContainers": pod["initContainers"], "volumes": pod["volumes"], "command": container["command"],
            "env": container["env"], "volumeMounts": container["volumeMounts"]}


def training_pods_agree():
    """The examples differ in what they start, not in how gpuwhy gets into the pod. Every folder is created."""
    parts = [parts_of_gpuwhy(template["spec"]) for name in TRAINING for document in load(MANIFESTS / name)
             for template in pod_templates(document)]
    expect(len(parts) == 4, f"{len(parts)} pods")
    for other in parts[1:]:
        expect(other == parts[0], f"the parts of gpuwhy differ:\n{parts[0]}\n{other}")
    init = parts[0]["initContainers"][0]
    at = {mount["name"]: mount["mountPath"] for mount in init["volumeMounts"]}
    expect(set(at) == {volume["name"] for volume in parts[0]["volumes"]}, f"volumes of the init container: {at}")
    words = " ".join(init["args"]).split()
    for mount in parts[0]["volumeMounts"]:
        expect(f"{at[mount['name']]}/{mount['subPath']}" in words, f"not created: {mount}")


def test():
    need_schemas()
    each_manifest_is_valid()
    pods_are_restricted()
    training_pods_agree()


if __name__ == "__main__":
    main(test)

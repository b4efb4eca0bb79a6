"""Writes a wheel by hand, so that pip has something to install without a network."""

import zipfile

files = {
    "demo.py": "def main():\n    print('demo', 1)\n",
    "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "demo-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo = demo:main\n",
}
with zipfile.ZipFile("demo-1.0-py3-none-any.whl", "w") as z:
    for name, text in files.items():
        z.writestr(name, text)
    z.writestr("demo-1.0.dist-info/RECORD", "".join(f"{n},,\n" for n in files) + "demo-1.0.dist-info/RECORD,,\n")

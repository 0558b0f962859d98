from newfound.cli import main

main()
